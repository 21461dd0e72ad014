package cli

import (
	"fmt"
	"io"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// beginning is a server on which nothing is wrong because little is watched yet: what is there,
// and what to type next.
type beginning struct {
	text string
	next [][2]string // what to type, and what for
}

// beginning is nil where machines are checked.
func (a *app) beginning(s v1.Status) *beginning {
	b := &beginning{}
	add := func(command, what string) { b.next = append(b.next, [2]string{command, what}) }
	const starter = "muster apply -f docs/examples/starter.yaml"
	switch {
	case s.Nodes == 0 && a.namespace != "":
		b.text = "No machine is in namespace " + a.namespace + "."
		add("muster get nodes -A", "the machines of all namespaces")
	case s.Nodes == 0:
		b.text = "The server is well, and watches no machine yet."
		if s.Pending > 0 {
			add("muster node list --pending", "machines that wait to be let in")
		}
		add("muster node token", "prints the line with which a machine joins")
		if s.NoChecks {
			add(starter, "eight checks for every machine, to begin with")
		}
	case s.NoChecks:
		b.text = fmt.Sprintf("The server hears of %s, and checks nothing there yet.", model.CountNoun(s.Nodes, "machine"))
		add(starter, "eight checks for every machine, to begin with")
		add("muster explain check", "how to write one of your own")
	case s.NoResults:
		b.text = fmt.Sprintf("The server hears of %s; the first results are not here yet.", model.CountNoun(s.Nodes, "machine"))
		add("muster get events -w", "shows them as they come")
		add("muster why NODE/CHECK", "says why one does not")
	default:
		return nil
	}
	return b
}

func (b *beginning) write(w io.Writer) {
	wide := 0
	for _, n := range b.next {
		wide = max(wide, len(n[0]))
	}
	fmt.Fprintln(w)
	for _, n := range b.next {
		fmt.Fprintf(w, "  %-*s   %s\n", wide, n[0], n[1])
	}
}
