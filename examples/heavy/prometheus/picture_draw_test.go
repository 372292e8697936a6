package main

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// picture is panels of the dashboard, drawn over the seconds of one run.
type picture struct {
	seconds []float64
	marks   []mark
	charts  []chart
}

// mark is a moment of the run, with a line in each panel.
type mark struct {
	second float64
	text   string
}

type chart struct {
	title, unit string
	lines       []line
}

// line has a value for each scrape, or NaN.
type line struct {
	name   string
	values []float64
}

// Sizes of the picture, in pixels.
const (
	chartWidth, chartHeight = 430, 222
	plotLeft, plotTop       = 40, 38
	plotWidth, plotHeight   = 376, 120
	margin                  = 10
	legendPitch             = 15
	letterWidth             = 6
	maxSteps                = 6
)

// The colours of a light and of a dark page, those of the lines last.
const style = `<style>
text{fill:#57606a}.p{fill:#fff}.t{fill:#24292f;font-size:13px;font-weight:bold}
.g{stroke:#d8dee4}.m{stroke:#8c959f;stroke-dasharray:3 3}
.l{fill:none;stroke-width:1.6;stroke-linejoin:round}
.l0{stroke:#0969da}.l1{stroke:#bc4c00}.l2{stroke:#1a7f37}.l3{stroke:#8250df}.l4{stroke:#cf222e}.l5{stroke:#6e7781}
@media (prefers-color-scheme:dark){
text{fill:#9da7b3}.p{fill:#0d1117}.t{fill:#e6edf3}.g{stroke:#30363d}.m{stroke:#6e7681}
.l0{stroke:#58a6ff}.l1{stroke:#f0883e}.l2{stroke:#3fb950}.l3{stroke:#bc8cff}.l4{stroke:#ff7b72}.l5{stroke:#8b949e}
}
</style>
`

const colours = 6

// draw returns the picture as SVG, two panels in a row.
func (p picture) draw() string {
	var w strings.Builder
	width, height := 2*chartWidth+margin, (len(p.charts)+1)/2*chartHeight+2*margin+legendPitch
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"`, width, height)
	fmt.Fprintf(&w, ` width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", width, height)
	w.WriteString(style + `<rect class="p" width="100%" height="100%"/>` + "\n")
	for i, c := range p.charts {
		p.drawChart(&w, c, margin+i%2*chartWidth, margin+i/2*chartHeight)
	}
	var about []string
	for i, m := range p.marks {
		about = append(about, fmt.Sprintf("%d: %s", i+1, m.text))
	}
	text(&w, margin, float64(height-margin), "start", "Seconds of the run. "+strings.Join(about, ". ")+".")
	return w.String() + "</svg>\n"
}

func text(w *strings.Builder, x, y float64, anchor, value string) {
	fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, html.EscapeString(value))
}

// drawChart draws a panel whose upper left corner is at x and y.
func (p picture) drawChart(w *strings.Builder, c chart, x, y int) {
	fmt.Fprintf(w, "<g transform=\"translate(%d %d)\">\n", x, y)
	fmt.Fprintf(w, "<text class=\"t\" y=\"14\">%s</text>\n", html.EscapeString(c.title))
	text(w, plotLeft-6, plotTop-9, "end", c.unit)
	step, steps := scale(c.most())
	for i := range steps + 1 {
		at := plotTop + plotHeight*(1-float64(i)/float64(steps))
		fmt.Fprintf(w, "<path class=\"g\" d=\"M%d %.1fh%d\"/>\n", plotLeft, at, plotWidth)
		text(w, plotLeft-6, at+4, "end", number(float64(i)*step, step))
	}
	p.drawSeconds(w)
	for i := len(c.lines) - 1; i >= 0; i-- { // the first one is on top
		fmt.Fprintf(w, "<path class=\"l l%d\" d=\"%s\"/>\n", i%colours, p.path(c.lines[i], float64(steps)*step))
	}
	drawLegend(w, c.lines)
	w.WriteString("</g>\n")
}

// drawSeconds draws the axis of time, and the marks.
func (p picture) drawSeconds(w *strings.Builder) {
	step, _ := scale(p.seconds[len(p.seconds)-1])
	for at := 0.0; at <= p.seconds[len(p.seconds)-1]; at += step {
		text(w, p.x(at), plotTop+plotHeight+14, "middle", number(at, step))
	}
	for i, m := range p.marks {
		fmt.Fprintf(w, "<path class=\"m\" d=\"M%.1f %dv%d\"/>\n", p.x(m.second), plotTop, plotHeight)
		text(w, p.x(m.second), plotTop-4, "middle", strconv.Itoa(i+1))
	}
}

func (p picture) x(second float64) float64 {
	return plotLeft + plotWidth*second/p.seconds[len(p.seconds)-1]
}

// path returns the points of a line, with a gap for each NaN.
func (p picture) path(l line, top float64) string {
	var points strings.Builder
	command := "M"
	for i, value := range l.values {
		if math.IsNaN(value) {
			command = "M"
			continue
		}
		fmt.Fprintf(&points, "%s%.1f %.1f", command, p.x(p.seconds[i]), plotTop+plotHeight*(1-value/top))
		command = "L"
	}
	return points.String()
}

// drawLegend names the lines below the plot.
func drawLegend(w *strings.Builder, lines []line) {
	x, y := plotLeft, plotTop+plotHeight+2*legendPitch+3
	for i, l := range lines {
		width := letterWidth*len(l.name) + 32
		if x+width > plotLeft+plotWidth+margin {
			x, y = plotLeft, y+legendPitch
		}
		fmt.Fprintf(w, "<path class=\"l l%d\" d=\"M%d %dh14\"/>\n", i%colours, x, y-4)
		text(w, float64(x+18), float64(y), "start", l.name)
		x += width
	}
}

func (c chart) most() (most float64) {
	for _, l := range c.lines {
		for _, value := range l.values {
			if !math.IsNaN(value) {
				most = max(most, value)
			}
		}
	}
	return most
}

// scale returns a step of 1, 2 or 5 times a power of ten, and how many of them
// reach the largest value.
func scale(most float64) (step float64, steps int) {
	if most <= 0 {
		return 1, 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most))-1)
	for _, factor := range []float64{1, 2, 5, 10, 20} {
		step = factor * power
		if steps = int(math.Ceil(most/step - 1e-9)); steps <= maxSteps {
			return step, steps
		}
	}
	return step, steps
}

// number writes a multiple of a step with as many digits as the step needs.
func number(value, step float64) string {
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	return strconv.FormatFloat(value, 'f', digits, 64)
}
