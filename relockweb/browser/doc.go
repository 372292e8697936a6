// Package browser tests the page of relockweb in Chromium. It is a separate
// module, so that users do not download what drives a browser.
package browser
