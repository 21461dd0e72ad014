package page

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the template, the style and the script
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/page/chart"
	"github.com/muster-fleet/muster/internal/load/report"
)

var (
	//go:embed page.html
	source string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

// view is the page in finished words.
type view struct {
	Title, Shape string
	Began        string
	Labels       []string
	Verdict      verdict
	Objectives   []objective
	Caveats      []string
	Tiles        []tile
	Columns      int // of tiles, where there is room
	Charts       []chart.Drawing
	Legend       []note // of the signs in the charts
	Sections     []section

	Policy string
	Style  template.CSS
	Script template.JS
}

// mostColumns is how many tiles fit into a line.
const mostColumns = 7

// section is a heading with what belongs under it.
type section struct {
	ID, Title string
	Text      []string
	Tables    []table
	Code      []code
	Links     []note
	Folded    bool // shown when asked for
}

// code is text that is set as it is.
type code struct{ Name, Text string }

// note is a short name and what it stands for.
type note struct{ Name, Text string }

// Write writes the report as one HTML file. The report is not changed.
func Write(w io.Writer, rep *report.Report) error {
	set, err := template.New("page").Parse(source)
	if err == nil {
		_, err = set.Parse(chart.Template())
	}
	if err != nil {
		return fmt.Errorf("BUG: the report's template: %w", err)
	}
	v, err := newView(rep)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	if err := set.ExecuteTemplate(out, "page", v); err != nil {
		return fmt.Errorf("write the report's page: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the report's page: %w", err)
	}
	return nil
}

func newView(rep *report.Report) (*view, error) {
	v := &view{Title: strings.ReplaceAll(title(rep), " %", nb+"%"), Shape: shape(rep), Labels: labels(rep), Verdict: newVerdict(rep), Objectives: objectives(rep),
		Caveats: caveats(rep), Tiles: tiles(rep), Style: template.CSS(style), Script: template.JS(script), Policy: policy()}
	if !rep.Began.IsZero() {
		v.Began = rep.Began.UTC().Format("2 January 2006, 15:04 UTC")
	}
	if v.Columns = len(v.Tiles); v.Columns > mostColumns {
		v.Columns = (len(v.Tiles) + 1) / 2
	}
	v.Charts, v.Legend = charts(rep)
	scenario, err := scenarioSection(rep)
	if err != nil {
		return nil, err
	}
	all := []section{costSection(rep), phaseSection(rep), ledgerSection(rep), faultSection(rep), turnSection(rep), messageSection(rep), changeSection(rep), operatorSection(rep),
		outageSection(rep), loaderSection(rep), refusalSection(rep), environmentSection(rep), limitSection(rep), logSection(rep), metricsSection(rep),
		scenario, fileSection(rep), reproduceSection(rep)}
	for _, s := range all {
		if len(s.Text)+len(s.Tables)+len(s.Code)+len(s.Links) > 0 {
			v.Sections = append(v.Sections, s)
		}
	}
	return v, nil
}

// policy lets the page load nothing and run its own script alone.
func policy() string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'"
}

// title is the run's, or its scenario's.
func title(rep *report.Report) string {
	switch {
	case rep.Title != "":
		return rep.Title
	case rep.Scenario != nil && rep.Scenario.Title != "":
		return rep.Scenario.Title
	case rep.Scenario != nil && rep.Scenario.Name != "":
		return rep.Scenario.Name
	}
	return "Load run"
}

// labels are what must be said wherever the figures are shown and is not in the title.
func labels(rep *report.Report) []string {
	list := slices.Clone(rep.Label)
	if rep.Scenario != nil {
		if scale := rep.Scenario.Label(); scale != "" && !slices.Contains(list, scale) {
			list = append(list, scale)
		}
	}
	return slices.DeleteFunc(list, func(l string) bool { return strings.Contains(title(rep), l) })
}
