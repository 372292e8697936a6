package main

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours of our libraries, and of the others.
var (
	oursColour = color.RGBA{R: 0x09, G: 0x69, B: 0xda, A: 0xff}
	restColour = color.RGBA{R: 0xaf, G: 0xb8, B: 0xc1, A: 0xff}
)

// panel draws one figure for all libraries that have it, as horizontal bars
// from 0. A line goes from the least of the runs to the most.
func (t table) panel(r results, c column) *plot.Plot {
	p := plot.New()
	p.Title.TextStyle.Font.Size = vg.Points(11)
	p.Title.Text = c.plotted + ": more is better"
	if c.less {
		p.Title.Text = c.plotted + ": less is better"
	}
	var names []string
	for i := len(t.libraries) - 1; i >= 0; i-- { // from below
		library := t.libraries[i]
		if values := r.all(c.scenario, library, c.figure); len(values) > 0 {
			t.bar(p, values, len(names), strings.HasPrefix(library, ours), c.unit(median(values))+t.advantage(r, c, library))
			names = append(names, library)
		}
	}
	if len(names) > 0 {
		p.NominalY(names...)
	}
	p.Y.Padding = vg.Points(12) // for wider fonts, too
	p.HideX()
	p.X.Min, p.X.Max = 0, p.X.Max*1.6 // has the figures
	return p
}

func (t table) bar(p *plot.Plot, values []float64, at int, ours bool, label string) {
	least, middle, most := percentile(values, 0), median(values), percentile(values, 100)
	bar, _ := plotter.NewBarChart(plotter.Values{middle}, vg.Points(9)) // fails without a value
	bar.Horizontal, bar.XMin, bar.Color, bar.LineStyle.Width = true, float64(at), restColour, 0
	if ours {
		bar.Color = oursColour
	}
	end := plotter.XYs{{X: most, Y: float64(at)}}
	spread, _ := plotter.NewLine(plotter.XYs{{X: least, Y: float64(at)}, end[0]})
	name, _ := plotter.NewLabels(plotter.XYLabels{XYs: end, Labels: []string{label}})
	name.Offset.X = vg.Points(4)
	name.TextStyle[0].YAlign = text.YCenter
	p.Add(bar, spread, name)
}

// drawn returns the plotted figures as SVG, two in a row.
func drawn(all []table, r results) (string, error) {
	plot.DefaultFont.Variant, plotter.DefaultFont.Variant = "Sans", "Sans"
	var panels []*plot.Plot
	for _, t := range all {
		for _, c := range t.columns {
			if c.plotted != "" {
				panels = append(panels, t.panel(r, c))
			}
		}
	}
	tiles := draw.Tiles{Cols: 2, Rows: (len(panels) + 1) / 2, PadX: 10, PadY: 10, PadTop: 5, PadLeft: 5}
	canvas := vgsvg.New(vg.Points(660), vg.Points(float64(tiles.Rows)*150))
	for i, p := range panels {
		p.Draw(tiles.At(draw.New(canvas), i%2, i/2))
	}
	var w strings.Builder
	_, err := canvas.WriteTo(&w)
	return strings.ReplaceAll(w.String(), "Liberation Sans", "sans-serif"), err // has its widths
}
