package main

import (
	"fmt"
	"html"
	"strings"
)

// panel is one figure for all libraries, as horizontal bars.
type panel struct {
	title string
	bars  []bar
}

type bar struct {
	label, value string
	length       float64 // 0 to 1
	least, most  float64 // of the runs, on the same scale
	ours         bool
}

func panels(all []table, r results) []panel {
	var found []panel
	for _, t := range all {
		for _, c := range t.columns {
			if c.plotted != "" {
				found = append(found, t.panel(r, c))
			}
		}
	}
	return found
}

func (t table) panel(r results, c column) panel {
	p := panel{title: c.plotted + ": more is better"}
	if c.less {
		p.title = c.plotted + ": less is better"
	}
	longest := 0.0
	for _, library := range t.libraries {
		for _, value := range r.all(c.scenario, library, c.figure) {
			longest = max(longest, value)
		}
	}
	for _, library := range t.libraries {
		values := r.all(c.scenario, library, c.figure)
		if len(values) == 0 {
			continue
		}
		b := bar{
			label: library, value: c.unit(median(values)) + t.advantage(r, c, library), ours: strings.HasPrefix(library, ours),
		}
		if longest > 0 {
			b.length, b.least, b.most = median(values)/longest, percentile(values, 0)/longest, percentile(values, 100)/longest
		}
		p.bars = append(p.bars, b)
	}
	return p
}

// Sizes of the plot, in pixels.
const (
	panelWidth  = 440
	labelWidth  = 118
	longestBar  = 190
	barPitch    = 17
	barHeight   = 12
	panelMargin = 14
	titleHeight = 24
	inARow      = 2
)

// plot draws panels as SVG, two in a row. Bars start at 0 and are proportional
// to their figures, and a line goes from the least of the runs to the most.
func plot(all []panel) string {
	var body strings.Builder
	y := panelMargin
	for i := 0; i < len(all); i += inARow {
		row := all[i:min(i+inARow, len(all))]
		most := 0
		for k, p := range row {
			p.draw(&body, panelMargin+k*panelWidth, y)
			most = max(most, len(p.bars))
		}
		y += titleHeight + most*barPitch + panelMargin
	}
	width := panelMargin + inARow*panelWidth
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d"`+
		` font-family="sans-serif" font-size="11">
<rect width="100%%" height="100%%" fill="#fff"/>
%s</svg>
`, width, y, width, y, body.String())
}

func (p panel) draw(w *strings.Builder, x, y int) {
	fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" font-size=\"12\" font-weight=\"bold\" fill=\"#24292f\">%s</text>\n",
		x, y+12, html.EscapeString(p.title))
	for i, b := range p.bars {
		b.draw(w, x, y+titleHeight+i*barPitch)
	}
}

func (b bar) draw(w *strings.Builder, x, y int) {
	fill := "#afb8c1"
	if b.ours {
		fill = "#0969da"
	}
	length, base := b.length*longestBar, y+barHeight-2
	fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#57606a\">%s</text>",
		x+labelWidth-6, base, html.EscapeString(b.label))
	fmt.Fprintf(w, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>",
		x+labelWidth, y, max(length, 1), barHeight, fill)
	left := float64(x + labelWidth)
	fmt.Fprintf(w, "<path d=\"M%.1f %dH%.1f\" stroke=\"#24292f\"/>",
		left+b.least*longestBar, y+barHeight/2, left+b.most*longestBar)
	fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%d\" fill=\"#24292f\">%s</text>\n",
		left+max(length, b.most*longestBar)+5, base, html.EscapeString(b.value))
}
