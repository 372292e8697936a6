package browser

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// shots are the pictures of the documentation, by the scheme, the width and the
// view.
var shots = map[string]string{
	"light 1280 ": "web-overview.png",
	"dark 1280 ?queue=orders&state=in-flight": "web-queue.png",
	"light 380 ?queue=orders&task=42":         "web-task.png",
}

// circle makes two clients wait for each other's locks until the test ends.
func (b *tab) circle() {
	b.Helper()
	one, two := b.other(), b.other()
	take := func(c *relock.Client, key, label string) {
		_, err := relock.NewRedisLock(key, c, relock.WithLabel(label)).Acquire(b.Context())
		require.NoError(b, err)
	}
	take(one, "orders/42", "payout")
	take(two, "stock/9", "stock")
	for key, c := range map[string]*relock.Client{"orders/42": two, "stock/9": one} {
		ctx, cancel := context.WithCancel(b.Context())
		done := testkit.Async(b, func() error { return relock.NewRedisLock(key, c, relock.WithBlock()).Lock(ctx) })
		b.Cleanup(func() { cancel(); b.Log("the waiter ended:", <-done) })
		testkit.Eventually(b, testkit.Patience, func() bool {
			info, err := b.client.Inspect(b.Context(), key)
			require.NoError(b, err)
			return info.Waiting > 0
		}, "nobody waits")
	}
}

// other returns another client of the page's server.
func (b *tab) other() *relock.Client {
	b.Helper()
	return locktest.CloseLater(b)(relock.NewClient(b.server.Network, b.server.Address, ""))
}

// Nothing is wider than the window, light and dark, on a phone and on a
// desktop. RELOCK_SHOTS is a folder for pictures: docs.
func TestWidths(t *testing.T) {
	b := open(t)
	b.orders()
	b.circle()
	b.take("a-very-long-name-of-a-lock-that-somebody-has-made-of-parts")
	for _, scheme := range []string{"light", "dark"} {
		media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		for _, width := range []int64{380, 1280} {
			for _, view := range []string{"", "?lock=stock/9", "?queue=orders&state=in-flight", "?queue=orders&task=42"} {
				var over bool
				b.do(emulation.SetEmulatedMedia().WithFeatures(media), chromedp.EmulateViewport(width, 560),
					chromedp.Navigate(b.url+view), chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &over))
				require.False(t, over, "%s, %d px, %s", scheme, width, view)
				b.shoot(shots[scheme+" "+strconv.FormatInt(width, 10)+" "+view])
			}
		}
	}
	b.calm()
}

// shoot writes a picture, if it is of the documentation and asked for.
func (b *tab) shoot(name string) {
	b.Helper()
	folder := os.Getenv("RELOCK_SHOTS")
	if folder == "" || name == "" {
		return
	}
	var shot []byte
	b.do(chromedp.CaptureScreenshot(&shot))
	require.NoError(b, os.WriteFile(filepath.Join(folder, name), shot, 0o600))
}
