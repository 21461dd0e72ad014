package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/model"
)

// Imbalance is one disagreement between the ledger and the server.
type Imbalance struct {
	Node      model.NodeID  `json:"node"`
	Name      string        `json:"name,omitempty"` // of the node
	Check     model.CheckID `json:"check"`          // zero: of the agent's stream as a whole
	CheckName string        `json:"checkName,omitempty"`
	Number    uint64        `json:"number,omitempty"` // in the agent's stream: the one meant, or the last acknowledged
	Kind      string        `json:"kind,omitempty"`
	Problem   string        `json:"problem"`
}

// String describes the imbalance in a sentence.
func (i Imbalance) String() string {
	s := fmt.Sprintf("node %s (%d)", i.Name, i.Node)
	if i.Check > 0 {
		s += fmt.Sprintf(" check %s (%d)", i.CheckName, i.Check)
	}
	return s + fmt.Sprintf(" number %d: %s", i.Number, i.Problem)
}

// MostExamples of imbalances are kept.
const MostExamples = 10

// Balance is the verdict of the ledger: sent = acknowledged + refused + stopped + missing.
type Balance struct {
	Sent         uint64            `json:"sent"`
	Acknowledged uint64            `json:"acknowledged"`
	Refused      uint64            `json:"refused"`
	Stopped      uint64            `json:"stopped,omitempty"`   // held by machines that the fault script left dead
	Missing      uint64            `json:"missing"`             // sent, neither acknowledged nor refused
	Unsure       uint64            `json:"unsure,omitempty"`    // not in the view, of checks that were refused before, and their own answer was lost with a connection
	Compared     int               `json:"compared"`            // event states compared with the view
	Differ       int               `json:"differ,omitempty"`    // of them
	Ordered      int               `json:"ordered,omitempty"`   // of them, those whose results were compared one by one, in their order …
	Unordered    map[string]int    `json:"unordered,omitempty"` // … and those where that could not be, by why
	Imbalances   uint64            `json:"imbalances"`          // of states, and what the server should not have said
	Kinds        map[string]uint64 `json:"kinds,omitempty"`     // of imbalances
	Examples     []Imbalance       `json:"examples,omitempty"`
}

// OK reports whether no result is missing, the view agrees, and the server kept the protocol.
func (b *Balance) OK() bool { return b.Missing == 0 && b.Imbalances == 0 }

// WasCompared reports whether the server's states were compared with the ledger.
func (b *Balance) WasCompared() bool { return b.Compared > 0 || b.Differ > 0 }

// Add counts an imbalance, and keeps the first ones as examples.
func (b *Balance) Add(i Imbalance, format string, args ...any) {
	i.Problem = fmt.Sprintf(format, args...)
	b.Imbalances++
	if b.Kinds == nil {
		b.Kinds = map[string]uint64{}
	}
	b.Kinds[i.Kind]++
	if len(b.Examples) < MostExamples {
		b.Examples = append(b.Examples, i)
	}
}

// Sentences describes the differences of results.
func (b *Balance) Sentences() []string { return b.sentences("results") }

// sentences describes the differences of results, or of signals.
func (b *Balance) sentences(things string) (list []string) {
	if b.Missing > 0 {
		list = append(list, fmt.Sprintf("%d %s were sent and neither acknowledged nor refused", b.Missing, things))
	}
	if b.Imbalances == 0 {
		return list
	}
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(b.Kinds)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", b.Kinds[k], k))
	}
	what := cmp.Or(strings.Join(kinds, ", "), number.Of(b.Imbalances, "imbalance"))
	if len(b.Examples) > 0 {
		what += "; " + b.Examples[0].String()
	}
	if b.Differ == 0 {
		return append(list, fmt.Sprintf("the server answered wrongly: %s", what))
	}
	return append(list, fmt.Sprintf("%d of %d event states differ from the ledger: %s", b.Differ, b.Compared, what))
}

// NotOrdered counts a state whose order of results was not compared.
func (b *Balance) NotOrdered(why string) {
	if b.Unordered == nil {
		b.Unordered = map[string]int{}
	}
	b.Unordered[why]++
}

// OrderNotCompared returns the numbers of states without a comparison of order, by reason, or an empty text.
func (b *Balance) OrderNotCompared() string {
	var list []string
	for _, why := range slices.Sorted(maps.Keys(b.Unordered)) {
		list = append(list, fmt.Sprintf("%d (%s)", b.Unordered[why], why))
	}
	return strings.Join(list, ", ")
}
