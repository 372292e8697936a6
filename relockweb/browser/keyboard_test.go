package browser

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// tabTo presses Tab until what has the focus has this name, as a screen reader
// says it. It requires that the focus can be seen on the way.
func (b *tab) tabTo(name string) {
	b.Helper()
	var passed []string
	for range 60 {
		var at struct{ Name, Outline string }
		b.do(chromedp.KeyEvent("\t"), chromedp.Evaluate(`(() => {`+names+`
			const e = document.activeElement;
			return { name: nameOf(e), outline: getComputedStyle(e).outlineStyle };
		})()`, &at))
		if at.Name == name {
			require.NotEqual(b, "none", at.Outline, "the focus on %q cannot be seen", name)
			return
		}
		passed = append(passed, at.Name)
	}
	require.Fail(b, "no Tab comes to "+name, "%q", passed)
}

// press goes to what has this name, presses the keys, and waits for a text.
func (b *tab) press(name, keys, says string) {
	b.Helper()
	b.tabTo(name)
	b.do(chromedp.KeyEvent(keys))
	b.says(says)
}

// names defines nameOf, which returns the name of an element.
const names = `const nameOf = (e) => (e.getAttribute("aria-label")
	|| (e.labels && e.labels.length && e.labels[0].innerText) || e.innerText || "").trim();`

// lacks waits until the page has no such text: it is another one by then.
func (b *tab) lacks(text string) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool {
		var found bool
		err := chromedp.Run(b.ctx, chromedp.Evaluate(`document.body.innerText.includes("`+text+`")`, &found))
		return err == nil && !found
	}, "the page still says "+text)
}

// orders returns a queue of the page's server that has a task in each state.
func (b *tab) orders() *queue.Queue {
	b.Helper()
	q, err := queue.New("orders", b.client, queue.WithLabel("checkout"))
	require.NoError(b, err)
	put := func(all ...queue.Task) {
		_, err := q.Enqueue(b.Context(), all...)
		require.NoError(b, err)
	}
	next := func() *queue.Delivery {
		all, err := q.Receive(b.Context(), 1)
		require.NoError(b, err)
		return all[0]
	}
	put(queue.Task{ID: "38"})
	require.NoError(b, next().DeadLetter(b.Context(), errors.New("no such customer")))
	put(queue.Task{ID: "40", Key: "customer 8"})
	require.NoError(b, next().Nack(b.Context(), time.Hour, errors.New("smtp 421")))
	put(queue.Task{ID: "41", Key: "customer 7"}, queue.Task{ID: "42", Key: "customer 7"})
	next()
	put(queue.Task{ID: "43"})
	return q
}

// With the keyboard only, a person finds out why a task waits, pauses its key
// and the queue, resumes both, and requeues a dead letter.
func TestKeyboardOnly(t *testing.T) {
	b := open(t)
	q := b.orders()
	b.do(chromedp.Navigate(b.url))
	b.says("orders")
	b.tabTo("Look up a task")
	b.do(chromedp.KeyEvent("42"))
	b.press("of the queue", "orders\r", "It waits for the task before it of its key: 41")
	b.press("41", "\r", "in checkout @ ")
	b.press("orders", "\r", "Pause the queue")
	b.press("Pause the queue", "\r", "The queue is paused: nothing is delivered.")
	b.press("Key of tasks", "customer 7\r", "Paused key")
	s, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.True(t, s.Paused)
	require.Equal(t, 1, s.PausedKeys)
	b.tabTo("Resume customer 7")
	b.do(chromedp.KeyEvent("\r"))
	b.lacks("Paused key")
	b.press("Resume the queue", " ", "Pause the queue")
	b.tabTo("38")
	b.do(chromedp.KeyEvent(" "))
	b.tabTo("Requeue the ticked")
	b.do(chromedp.KeyEvent("\r"))
	testkit.Eventually(t, testkit.Patience, func() bool {
		s, err = q.Stats(t.Context())
		require.NoError(t, err)
		return s.Dead == 0 && !s.Paused && s.PausedKeys == 0
	}, "it is not requeued")
	b.calm()
}

// rules returns what is wrong with the page, by rules that an audit of its
// accessibility has.
const rules = `(() => {` + names + `
	const wrong = [];
	const all = (selector) => [...document.querySelectorAll(selector)];
	if (!document.documentElement.lang) wrong.push("no language");
	if (!document.title) wrong.push("no title");
	if (all("main").length !== 1 || all("h1").length !== 1) wrong.push("not one main and one h1");
	let level = 1;
	for (const h of all("h1, h2, h3, h4")) {
		const next = Number(h.tagName[1]);
		if (next > level + 1) wrong.push("a level of headings is left out: " + h.innerText);
		level = next;
	}
	for (const e of all("a, button, input:not([type=hidden]), [tabindex], nav, [role=region]"))
		if (!nameOf(e)) wrong.push("no name: " + e.outerHTML);
	const ids = all("[id]").map((e) => e.id);
	if (new Set(ids).size !== ids.length) wrong.push("an id is there twice");
	for (const t of all("table")) {
		const cells = t.querySelectorAll("thead th");
		if (!cells.length || [...cells].some((c) => !c.innerText.trim())) wrong.push("a column has no head");
		for (const r of t.querySelectorAll("tbody tr"))
			if ([...r.cells].reduce((n, c) => n + c.colSpan, 0) !== cells.length)
				wrong.push("a row of other columns: " + r.innerText);
	}
	for (const e of all("[tabindex]"))
		if (e.tabIndex > 0) wrong.push("another order than that of the page: " + e.outerHTML);
	const parse = (color) => color.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
		.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const under = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.length < 4 || c[3] > 0) return c;
		}
		return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
	};
	for (const e of all("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
		const pair = [light(parse(getComputedStyle(e).color)), light(under(e))].sort((a, b) => b - a);
		const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
		if (contrast < 4.5) wrong.push("contrast " + contrast.toFixed(1) + ": " + e.innerText);
	}
	return wrong;
})()`

// Each view keeps the rules, in light and in dark.
func TestRules(t *testing.T) {
	b := open(t)
	q := b.orders()
	b.take("stock/9")
	require.NoError(t, q.PauseKey(t.Context(), "customer 9"))
	for _, scheme := range []string{"light", "dark"} {
		media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		b.do(emulation.SetEmulatedMedia().WithFeatures(media))
		for _, view := range []string{
			"", "?lock=stock/9", "?lock=free", "?queue=orders", "?queue=orders&state=behind", "?queue=orders&state=in-flight",
			"?queue=orders&task=42", "?queue=orders&task=none",
		} {
			var wrong []string
			b.do(chromedp.Navigate(b.url+view), chromedp.Evaluate(rules, &wrong))
			require.Empty(t, wrong, fmt.Sprint(scheme, " ", view))
		}
	}
	b.calm()
}
