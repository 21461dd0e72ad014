package load

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// Kinds of imbalance.
const (
	neverSent   = "acknowledged without having been sent"
	takenBack   = "acknowledgements taken back"
	refusedLate = "refused after they were acknowledged"
	lost        = "acknowledged and lost"
	overdone    = "applied more often than acknowledged"
	misnumbered = "with another last number"
	garbled     = "with another status or output"
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

func (i Imbalance) String() string {
	s := fmt.Sprintf("node %s (%d)", i.Name, i.Node)
	if i.Check > 0 {
		s += fmt.Sprintf(" check %s (%d)", i.CheckName, i.Check)
	}
	return s + fmt.Sprintf(" number %d: %s", i.Number, i.Problem)
}

// mostExamples of imbalances are kept.
const mostExamples = 10

// Balance is the verdict of the ledger: sent = acknowledged + refused + stopped + missing.
type Balance struct {
	Sent         uint64            `json:"sent"`
	Acknowledged uint64            `json:"acknowledged"`
	Refused      uint64            `json:"refused"`
	Stopped      uint64            `json:"stopped,omitempty"` // held by machines that the fault script left dead
	Missing      uint64            `json:"missing"`           // sent, neither acknowledged nor refused
	Unsure       uint64            `json:"unsure,omitempty"`  // not in the view, of checks that were refused before, and their own answer was lost with a connection
	Compared     int               `json:"compared"`          // event states compared with the view
	Differ       int               `json:"differ,omitempty"`  // of them
	Imbalances   uint64            `json:"imbalances"`        // of states, and what the server should not have said
	Kinds        map[string]uint64 `json:"kinds,omitempty"`   // of imbalances
	Examples     []Imbalance       `json:"examples,omitempty"`
}

// OK: nothing is missing, the view agrees, and the server kept its word.
func (b *Balance) OK() bool { return b.Missing == 0 && b.Imbalances == 0 }

// WasCompared says whether the server's states were looked at. Without them nobody knows
// whether the server holds what it acknowledged.
func (b *Balance) WasCompared() bool { return b.Compared > 0 || b.Differ > 0 }

func (b *Balance) add(i Imbalance, format string, args ...any) {
	i.Problem = fmt.Sprintf(format, args...)
	b.Imbalances++
	if b.Kinds == nil {
		b.Kinds = map[string]uint64{}
	}
	b.Kinds[i.Kind]++
	if len(b.Examples) < mostExamples {
		b.Examples = append(b.Examples, i)
	}
}

func (b *Balance) String() string {
	stopped, unsure := "", ""
	if b.Stopped > 0 {
		stopped = fmt.Sprintf("%d held by machines that stayed dead + ", b.Stopped)
	}
	if b.Unsure > 0 {
		unsure = fmt.Sprintf(", of %d results it is not known whether they were refused", b.Unsure)
	}
	compared := "not compared with the server's states"
	if b.WasCompared() {
		compared = fmt.Sprintf("%d event states compared, %d differ", b.Compared, b.Differ)
	}
	return fmt.Sprintf("%d sent = %d acknowledged + %d refused + %s%d missing; %s%s", b.Sent, b.Acknowledged, b.Refused, stopped, b.Missing, compared, unsure)
}

// sentences say what is wrong.
func (b *Balance) sentences() (list []string) {
	if b.Missing > 0 {
		list = append(list, fmt.Sprintf("%d results were sent and neither acknowledged nor refused", b.Missing))
	}
	if b.Imbalances == 0 {
		return list
	}
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(b.Kinds)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", b.Kinds[k], k))
	}
	what := cmp.Or(strings.Join(kinds, ", "), some(int(b.Imbalances), "imbalance"))
	if len(b.Examples) > 0 {
		what += "; " + b.Examples[0].String()
	}
	if b.Differ == 0 {
		return append(list, fmt.Sprintf("the server answered wrongly: %s", what))
	}
	return append(list, fmt.Sprintf("%d of %d event states differ from the ledger: %s", b.Differ, b.Compared, what))
}

// breaches is what servers said to any agent and should not have said. Its lock is taken
// under the agents'.
type breaches struct {
	mu sync.Mutex
	b  Balance
}

func (l *breaches) add(i Imbalance, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.add(i, format, args...)
}

// copyTo begins a balance with them.
func (l *breaches) copyTo(b *Balance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.Imbalances, b.Kinds, b.Examples = l.b.Imbalances, maps.Clone(l.b.Kinds), slices.Clone(l.b.Examples)
}

// balance sums the agents' ledgers and compares them with the view. before is how
// many results each state held when the run began. The agents must be at rest.
func (r *run) balance(ctx context.Context, before baseline) (*Balance, error) {
	b := &Balance{}
	r.breaches.copyTo(b)
	all := append(slices.Clip(r.fleet), r.theirs...)
	for _, a := range all {
		a.mu.Lock()
		l := &a.ledger
		open := l.sent - l.settled()
		b.Sent += l.sent
		b.Acknowledged += l.acked
		b.Refused += l.refused
		if l.gone {
			b.Stopped += open
		} else {
			b.Missing += open
		}
		a.mu.Unlock()
	}
	if r.cfg.Before == nil {
		return b, nil
	}
	c := newComparison(all, b)
	c.unnumbered = r.cfg.Driven != nil
	err := r.cfg.Before.Each(ctx, func(k Kept) error {
		c.state(k, before.of(k.Node, k.Check))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the view: %w", err)
	}
	c.absent()
	return b, nil
}
