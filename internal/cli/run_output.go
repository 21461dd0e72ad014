package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// runPrinter writes the output of a run: whole lines as they come, behind the name of their node, or
// with together equal outputs once at the end. Programs get one line of JSON per line of the server.
type runPrinter struct {
	*call
	together  bool
	nodes     map[string]*runNode
	names     []string // of nodes, in the order of their begin
	nameWidth int      // columns of the widest name so far
	counts    v1.RunCounts
}

// runNode is the state of one node in a run.
type runNode struct {
	pending string // output without its line end; with together all output
	printed bool   // whether any output was printed
	end     *v1.RunLine
}

// line prints one line of the server.
func (p *runPrinter) line(l v1.RunLine) error {
	if l.Type == v1.RunSummary && l.Summary != nil {
		p.counts = *l.Summary
	}
	switch p.Format {
	case screen.JSON:
		return json.NewEncoder(p.Out).Encode(l)
	case screen.YAML:
		return p.Document(l)
	}
	n := p.node(l.Node)
	switch l.Type {
	case v1.RunStarted:
		return nil
	case v1.RunOutput:
		n.pending += l.Output
		for !p.together {
			text, rest, whole := strings.Cut(n.pending, "\n")
			if !whole {
				break
			}
			n.pending, n.printed = rest, true
			p.printLine(l.Node, "%s", text)
		}
		return nil
	case v1.RunSummary:
		p.printSummary()
		return nil
	}
	n.end = &l
	if p.together {
		return nil
	}
	if n.pending != "" {
		n.printed = true
		p.printLine(l.Node, "%s", n.pending)
	}
	if text := p.endText(&l, n.printed, true); text != "" {
		p.printLine(l.Node, "%s", text)
	}
	return nil
}

// node returns the state of a node, and nil for a line without one.
func (p *runPrinter) node(name string) *runNode {
	n := p.nodes[name]
	if n == nil && name != "" {
		n = &runNode{}
		p.nodes[name] = n
		p.names = append(p.names, name)
		if w := screen.Width(screen.Clean(name)); p.Width == 0 || w <= p.Width/2 {
			p.nameWidth = max(p.nameWidth, w)
		}
	}
	return n
}

func (p *runPrinter) printLine(node, format string, args ...any) {
	p.Printf("%s%s  %s\n", screen.Cell{Text: node, Colour: screen.Faint}, screen.Pad(screen.Clean(node), p.nameWidth), p.Sprintf(format, args...))
}

// endText returns the end of a run on one node; empty: OK, and its output was printed.
func (p *runPrinter) endText(l *v1.RunLine, printed, duration bool) screen.Painted {
	switch {
	case l.Type == v1.RunRefused || l.Type == v1.RunLost:
		reason := ""
		if l.Why != "" {
			reason = ": " + l.Why
		}
		return p.Sprintf("%s%s", screen.Cell{Text: strings.ToUpper(l.Type), Colour: screen.Purple}, reason)
	case l.Status == nil, *l.Status == model.OK && printed && l.Cut == 0:
		return ""
	}
	text := ""
	if duration {
		text += " after " + (time.Duration(l.DurationMs) * time.Millisecond).String()
	}
	if l.Cut > 0 {
		text += fmt.Sprintf(" (%d bytes of output were cut)", l.Cut)
	}
	return p.Sprintf("%s%s", statusCell(*l.Status), text)
}

// printSummary counts the nodes by the end of their runs; with together it first prints all output.
func (p *runPrinter) printSummary() {
	if p.together {
		p.printGroups()
	}
	status := func(s model.Status) func(*v1.RunLine) bool {
		return func(l *v1.RunLine) bool { return l.Type == v1.RunDone && l.Status != nil && *l.Status == s }
	}
	ended := func(kind string) func(*v1.RunLine) bool { return func(l *v1.RunLine) bool { return l.Type == kind } }
	n := p.counts
	p.Printf("%s:", model.CountNoun(n.Nodes, "node"))
	for _, count := range []struct {
		n    int
		cell screen.Cell
		list func(*v1.RunLine) bool // selects the nodes to name; nil: none
	}{
		{n.OK, statusCell(model.OK), nil},
		{n.Warning, statusCell(model.Warning), status(model.Warning)},
		{n.Critical, statusCell(model.Critical), status(model.Critical)},
		{n.Unknown, statusCell(model.Unknown), status(model.Unknown)},
		{n.Refused, screen.Cell{Text: "refused", Colour: screen.Purple}, ended(v1.RunRefused)},
		{n.Lost, screen.Cell{Text: "lost", Colour: screen.Purple}, ended(v1.RunLost)},
	} {
		if count.n == 0 {
			continue
		}
		p.Printf("  %d %s", count.n, count.cell)
		if count.list != nil {
			names := slices.DeleteFunc(slices.Clone(p.names), func(name string) bool {
				end := p.nodes[name].end
				return end == nil || !count.list(end)
			})
			p.Printf(" (%s)", firstNames(names))
		}
	}
	p.Printf("\n")
}

// printGroups prints equal outputs once, the output of most nodes first.
func (p *runPrinter) printGroups() {
	nodes := map[string][]string{} // by output
	for _, name := range p.names {
		n := p.nodes[name]
		text := strings.TrimRight(screen.CleanLines(n.pending), "\n")
		if n.end != nil {
			if end := p.endText(n.end, text != "", false); end != "" {
				text = strings.TrimPrefix(text+"\n"+string(end), "\n")
			}
		}
		nodes[text] = append(nodes[text], name)
	}
	texts := make([]string, 0, len(nodes))
	for text := range nodes {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		if d := len(nodes[b]) - len(nodes[a]); d != 0 {
			return d
		}
		return strings.Compare(nodes[a][0], nodes[b][0])
	})
	for _, text := range texts {
		names := nodes[text]
		slices.Sort(names)
		head := model.CountNoun(len(names), "node") + ": " + firstNames(names)
		p.Printf("%s\n  %s\n", screen.Cell{Text: head, Colour: screen.Bold}, screen.Painted(strings.ReplaceAll(text, "\n", "\n  ")))
	}
}

// firstNames names the first of many nodes.
func firstNames(names []string) string { return model.ListFirst(names, 8) }

// running returns the nodes whose run began and has not ended.
func (p *runPrinter) running() []string {
	return slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return p.nodes[name].end != nil })
}
