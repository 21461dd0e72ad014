package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// runShown shows a run: whole lines as they come, each behind its node's name, or with
// together what each node wrote, equal outputs once. Programs get a line of JSON for each
// line of the server.
type runShown struct {
	*app
	format   format
	together bool
	nodes    map[string]*runNode
	names    []string // in the order they began
	wide     int      // columns of the widest name so far
	counts   v1.RunCounts
}

// runNode is what one node has said.
type runNode struct {
	rest  string // of a line that has not ended, or with together all of it
	wrote bool
	end   *v1.RunLine
}

func (s *runShown) line(l v1.RunLine) error {
	if l.Type == v1.RunSummary && l.Summary != nil {
		s.counts = *l.Summary
	}
	if s.format.machine() {
		return s.forPrograms(l)
	}
	n := s.nodes[l.Node]
	if n == nil && l.Node != "" {
		n = &runNode{}
		s.nodes[l.Node] = n
		s.names = append(s.names, l.Node)
		if w := width(clean(l.Node, false)); s.Width == 0 || w <= s.Width/2 {
			s.wide = max(s.wide, w)
		}
	}
	switch l.Type {
	case v1.RunStarted:
		return nil
	case v1.RunOutput:
		n.rest += l.Output
		if s.together {
			return nil
		}
		for {
			text, rest, whole := strings.Cut(n.rest, "\n")
			if !whole {
				return nil
			}
			n.rest, n.wrote = rest, true
			if err := s.print(l.Node, clean(text, false)); err != nil {
				return err
			}
		}
	case v1.RunSummary:
		return s.summary()
	}
	n.end = &l
	if s.together {
		return nil
	}
	if n.rest != "" {
		n.wrote = true
		if err := s.print(l.Node, clean(n.rest, false)); err != nil {
			return err
		}
	}
	if text := s.ended(&l, n.wrote); text != "" {
		return s.print(l.Node, text)
	}
	return nil
}

func (s *runShown) print(node, text string) error {
	name := clean(node, false)
	_, err := fmt.Fprintln(s.Stdout, s.paint(faint, name)+pad(name, s.wide)+"  "+text)
	return err
}

// ended is how it ended on one node; empty: well, and it has said something.
func (s *runShown) ended(l *v1.RunLine, wrote bool) string {
	why := ""
	if l.Why != "" {
		why = ": " + clean(l.Why, false)
	}
	switch {
	case l.Type == v1.RunRefused || l.Type == v1.RunLost:
		return s.paint(purple, strings.ToUpper(l.Type)) + why
	case l.Status == nil:
		return ""
	case *l.Status == model.OK && wrote && l.Cut == 0:
		return ""
	}
	status := statusCell(*l.Status)
	text := s.paint(status.colour, status.text) + " after " + (time.Duration(l.DurationMs) * time.Millisecond).String()
	if l.Cut > 0 {
		text += fmt.Sprintf(" (%d bytes of output were cut)", l.Cut)
	}
	return text
}

// summary is the last line; before it, with together, what all have written.
func (s *runShown) summary() error {
	if s.together {
		if err := s.groups(); err != nil {
			return err
		}
	}
	c := s.counts
	text := model.CountNoun(c.Nodes, "node") + ":"
	for _, one := range []struct {
		n      int
		cell   cell
		listed func(*v1.RunLine) bool
	}{
		{c.OK, statusCell(model.OK), nil},
		{c.Warning, statusCell(model.Warning), withStatus(model.Warning)}, {c.Critical, statusCell(model.Critical), withStatus(model.Critical)},
		{c.Unknown, statusCell(model.Unknown), withStatus(model.Unknown)},
		{c.Refused, cell{"refused", purple}, func(l *v1.RunLine) bool { return l.Type == v1.RunRefused }},
		{c.Lost, cell{"lost", purple}, func(l *v1.RunLine) bool { return l.Type == v1.RunLost }},
	} {
		if one.n == 0 {
			continue
		}
		text += fmt.Sprintf("  %d %s", one.n, s.paint(one.cell.colour, one.cell.text))
		if one.listed != nil {
			var names []string
			for _, name := range s.names {
				if e := s.nodes[name].end; e != nil && one.listed(e) {
					names = append(names, clean(name, false))
				}
			}
			text += " (" + some(names) + ")"
		}
	}
	_, err := fmt.Fprintln(s.Stdout, text)
	return err
}

func withStatus(want model.Status) func(*v1.RunLine) bool {
	return func(l *v1.RunLine) bool { return l.Type == v1.RunDone && l.Status != nil && *l.Status == want }
}

// groups prints equal outputs once, those of most nodes first.
func (s *runShown) groups() error {
	by := map[string][]string{}
	for _, name := range s.names {
		n := s.nodes[name]
		text := strings.TrimRight(clean(n.rest, true), "\n")
		if n.end != nil {
			end := *n.end
			end.DurationMs = 0
			if e := s.ended(&end, text != ""); e != "" {
				e = strings.Replace(e, " after 0s", "", 1)
				text = strings.TrimPrefix(text+"\n"+e, "\n")
			}
		}
		by[text] = append(by[text], clean(name, false))
	}
	texts := make([]string, 0, len(by))
	for text := range by {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		if d := len(by[b]) - len(by[a]); d != 0 {
			return d
		}
		return strings.Compare(by[a][0], by[b][0])
	})
	for _, text := range texts {
		names := by[text]
		slices.Sort(names)
		if _, err := fmt.Fprintf(s.Stdout, "%s\n  %s\n", s.paint(bold, model.CountNoun(len(names), "node")+": "+some(names)), strings.ReplaceAll(text, "\n", "\n  ")); err != nil {
			return err
		}
	}
	return nil
}

// some names the first of many.
func some(names []string) string { return model.ListFirst(names, 8) }

// going are the nodes that began and have not ended.
func (s *runShown) going() (names []string) {
	for _, name := range s.names {
		if s.nodes[name].end == nil {
			names = append(names, clean(name, false))
		}
	}
	return names
}

func (s *runShown) forPrograms(l v1.RunLine) error {
	if s.format == "yaml" {
		if _, err := fmt.Fprintln(s.Stdout, "---"); err != nil {
			return err
		}
		return s.printValue(s.format, l)
	}
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = fmt.Fprintf(s.Stdout, "%s\n", data)
	return err
}
