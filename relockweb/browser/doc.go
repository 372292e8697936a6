// Package browser tests the page of relockweb in Chromium. It is a separate
// module, so that users do not download what drives a browser.
//
// TestWidths writes the pictures of the documentation:
//
//	RELOCK_SHOTS=$PWD/../../docs go test -run TestWidths .
package browser
