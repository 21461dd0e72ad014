package observe

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// Ledgers are the results of one loader in the end: a ledger of each agent, and the answers of the server that no answer
// may be.
type Ledgers struct {
	Sets     []Set
	Agents   []Ledger
	Pairs    []Pair
	Breaches Breaches
}

// Agents returns the ledgers of all agents of some loaders.
func Agents(loaders []Ledgers) iter.Seq[*Ledger] {
	return func(yield func(*Ledger) bool) {
		for i := range loaders {
			for n := range loaders[i].Agents {
				if !yield(&loaders[i].Agents[n]) {
					return
				}
			}
		}
	}
}

// Members returns the ledgers of all agents of some loaders, by their members of the fleet.
func Members(loaders []Ledgers) map[int]*Ledger {
	members := map[int]*Ledger{}
	for a := range Agents(loaders) {
		members[a.Member] = a
	}
	return members
}

// Set is an assignment: the check behind each index of a ledger's states.
type Set struct {
	Class  int     `json:"class"`
	Checks []Check `json:"checks"`
}

// Check names a check on the server.
type Check struct {
	ID   model.CheckID `json:"id"`
	Name string        `json:"name"`
}

// Ledger has what became of one agent's signals: each is acknowledged, refused, or without an answer. Times are ns since
// the start of the timetable.
type Ledger struct {
	Member   int              `json:"member"` // of the fleet
	Name     string           `json:"name"`   // of the node
	Node     model.NodeID     `json:"node"`
	Stream   uint64           `json:"stream"`
	Set      int              `json:"set"` // index in Ledgers.Sets; -1: the agent had no assignment
	Sent     uint64           `json:"sent"`
	Acked    uint64           `json:"acked"`
	Refused  uint64           `json:"refused"`
	Signals  uint64           `json:"signals,omitempty"`  // of Sent, those with values, runs of directives or inventories …
	Taken    uint64           `json:"taken,omitempty"`    // … of them, acknowledged
	Stopped  bool             `json:"stopped,omitempty"`  // a fault left its machine dead
	Stays    []Stay           `json:"stays,omitempty"`    // with a session
	Absences []Absence        `json:"absences,omitempty"` // without a session, though it should have had one
	Quiet    []Stay           `json:"quiet,omitempty"`    // intervals without a signal, longer than the limit
	Open     map[int16]uint64 `json:"open,omitempty"`     // results without an answer, by check
	States   Entries          `json:"states"`             // by check
}

// Stay is a span of time.
type Stay struct {
	From int64 `json:"from"`
	To   int64 `json:"to"` // Lasts: no end yet
}

// Absence is a span of time without a session.
type Absence struct {
	From  int64 `json:"from"`
	To    int64 `json:"to"`              // Lasts: no end yet
	Acked int64 `json:"acked,omitempty"` // first acknowledgement after it; 0: none yet
}

// Since returns the ledger with times since an instant. Its lists are copies.
func (l Ledger) Since(begin int64) Ledger {
	shift := func(at *int64) {
		if *at != Lasts {
			*at -= begin
		}
	}
	l.Stays, l.Quiet, l.Absences, l.States = slices.Clone(l.Stays), slices.Clone(l.Quiet), slices.Clone(l.Absences), slices.Clone(l.States)
	for _, list := range [][]Stay{l.Stays, l.Quiet} {
		for i := range list {
			shift(&list[i].From)
			shift(&list[i].To)
		}
	}
	for i := range l.Absences {
		x := &l.Absences[i]
		shift(&x.From)
		if shift(&x.To); x.Acked > 0 {
			shift(&x.Acked)
		}
	}
	return l
}

// Lasts is the end of a stay without an end.
const Lasts = math.MaxInt64

// Entry has what became of the results of one event state: 20 bytes, for there are millions. Counts of two bytes stay at
// their greatest value.
type Entry struct {
	Results uint32             // acknowledged
	Number  uint32             // of the last of them; no simulated machine lives for 2^32 signals
	Digest  uint32             // of the last one's status and output
	Order   model.ResultDigest // of the numbers of all of them
	Unheard uint16             // of them, those that only a Welcome acknowledged
	Refused uint16
}

// entrySize is the number of bytes of an encoded Entry.
const entrySize = 20

// Entries are encoded as base64 in JSON.
type Entries []Entry

var errEntries = errors.New("the states of a ledger are cut short")

// MarshalJSON encodes the entries.
func (list Entries) MarshalJSON() ([]byte, error) {
	data, err := binary.Append(nil, binary.BigEndian, []Entry(list))
	if err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

// UnmarshalJSON decodes the entries.
func (list *Entries) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil {
		return err
	}
	if len(data)%entrySize != 0 {
		return errEntries
	}
	*list = make(Entries, len(data)/entrySize)
	_, err := binary.Decode(data, binary.BigEndian, []Entry(*list))
	return err
}

// Pair is the event state of one check about one proxy node, which many agents report on.
type Pair struct {
	Node   model.NodeID `json:"node"`
	Name   string       `json:"name"` // of the node
	Check  Check        `json:"check"`
	Entry  Entry        `json:"entry"`
	Last   []Final      `json:"last"`             // results that may be the last one on the server
	AtOnce bool         `json:"atOnce,omitempty"` // agents sent at the same time, so that nobody knows the order of the results
	Open   uint64       `json:"open,omitempty"`   // results without an answer
}

// Final is a result that may be the last one of a Pair.
type Final struct {
	Stream uint64       `json:"stream"`
	Number uint32       `json:"number"`
	Digest uint32       `json:"digest"`
	Status model.Status `json:"status"`
	Made   int64        `json:"made"`
	Acked  int64        `json:"acked"`
}

// Breach is an answer of the server that contradicts the protocol; it names no check.
type Breach = report.Imbalance

// Kinds of breaches.
const (
	NeverSent   = "acknowledged without having been sent"
	TakenBack   = "acknowledgements taken back"
	RefusedLate = "refused after they were acknowledged"
)

// Breaches counts breaches by kind.
type Breaches struct {
	Kinds map[string]uint64 `json:"kinds,omitempty"`
	First []Breach          `json:"first,omitempty"` // report.MostExamples
}

// Add counts a breach.
func (b *Breaches) Add(x Breach) {
	if b.Kinds == nil {
		b.Kinds = map[string]uint64{}
	}
	b.Kinds[x.Kind]++
	if len(b.First) < report.MostExamples {
		b.First = append(b.First, x)
	}
}

// Problem is a problem of a machine's keepalive, as the server tells it.
type Problem struct {
	ID     string    `json:"id"`
	Node   string    `json:"node"`
	Opened time.Time `json:"opened"`
	At     int64     `json:"at"` // Opened by the loader's clock, ns since the start of the timetable
}

// RenamedEnd is the end of a name that a run gives to a node.
const RenamedEnd = "-renamed"

// OwnName returns the name of a node before it was renamed.
func OwnName(name string) string { return strings.TrimSuffix(name, RenamedEnd) }
