package event

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// State is a copy of one event state. It names node, check and namespace by their ids. It owns its memory.
type State struct {
	Node        model.NodeID
	Check       model.CheckID      // or the Template of a trigger
	Instance    string             // the trigger; empty: a check
	Definition  model.DefinitionID // that judged it last
	Namespace   model.NamespaceID
	Status      model.Status
	Severity    model.Severity
	Expired     bool   // the status comes from a deadline
	Failing     uint32 // not-OK results in a row, for failAfter
	Passing     uint32
	Occurrences uint32
	Watermark   uint32
	StatusHistory
	Counters
	Received int64 // Unix ns
	Executed int64
	LastOK   int64
	Changed  int64
	Duration time.Duration
	RanBy    model.NodeID // the node that ran it, where that is another one
	Output   string
	Problem  *model.Problem
	Extra    wire.Extra // further fields of the last result; only Get fills it
	Runs     []Run      // runs of the last statuses, oldest first, as far as its check names pipelines; only Get and observations fill it
}

// Source returns the check or trigger that the event is about.
func (s *State) Source() model.Source {
	if s.Instance == "" {
		return model.CheckSource(s.Check)
	}
	return model.InstanceSource(s.Check, s.Instance)
}

// StatusHistory has the last statuses of an event
type StatusHistory struct {
	History      uint64 // two bits each, newest in the lowest
	HistoryLen   uint8
	Change       uint32 // percent of change in the history
	Flapping     bool
	StateChanges uint32
}

// Statuses returns the last statuses of an event, oldest first.
func Statuses[T model.Status | int](h *StatusHistory) []T {
	n := min(int(h.HistoryLen), model.HistoryDepth)
	out := make([]T, n)
	for i := range n {
		out[n-1-i] = T(h.History >> (2 * i) & 3)
	}
	return out
}

// Counters has the numbers of applied and lost results of an event. It also has the stream and number of the last
// result.
type Counters struct {
	Results uint64
	Lost    uint64
	Stream  uint64
	Number  uint64
	Order   model.ResultDigest // of all results
}

// Query selects event states by namespace, node, check, status and CEL condition. Zero fields select everything; the
// rest are intersected.
type Query struct {
	Namespaces []model.NamespaceID
	Nodes      []model.NodeID // nil: all; empty, not nil: none
	Checks     []model.CheckID
	Instance   string // only this one of Checks (Templates); empty: all
	Statuses   []model.Status
	Problems   bool // only those with an open problem
	// Match is asked last, because no index answers it (CEL). It must not keep the state.
	Match func(*State) (bool, error)
	// MatchWithin ends the search after this long with a partial page and a token.
	MatchWithin time.Duration
	// ByNode lists by partition, node and check alone. Such a list has every state that lasts, exactly once; in a list by
	// severity, a state whose severity changes meanwhile may be missing or come twice.
	ByNode bool
	Limit  int
	After  string // token of the page before
}

// Page is one page of a list of event states, sorted by severity (worst first). Within a severity the order is
// partition, node and check. Query.ByNode leaves the severity out.
type Page struct {
	States  []State
	Next    string // token, empty at the end
	Partial bool   // ended by MatchWithin, not by Limit
}

// Counts holds the number of event states by status, for `muster status`.
type Counts struct {
	States   uint64
	ByStatus [4]uint64
	Problems uint64
}

// NotOK returns the number of events with a status other than OK.
func (c *Counts) NotOK() uint64 { return c.States - c.ByStatus[model.OK] }

// Add adds the numbers of events in another Counts to c.
func (c *Counts) Add(more Counts) { c.add(&more) }

// add adds the numbers in another Counts to the numbers in c.
func (c *Counts) add(more *Counts) {
	c.States += more.States
	c.Problems += more.Problems
	for i, n := range more.ByStatus {
		c.ByStatus[i] += n
	}
}

// subtract subtracts the numbers of another Counts from c.
func (c *Counts) subtract(less *Counts) {
	c.States -= less.States
	c.Problems -= less.Problems
	for i, n := range less.ByStatus {
		c.ByStatus[i] -= n
	}
}

// Reader reads and lists the events for the API. *View implements it.
type Reader interface {
	Get(node model.NodeID, source model.Source) (State, bool)
	List(ctx context.Context, q Query) (Page, error)
	Counts(namespace model.NamespaceID) Counts // zero: all namespaces
	CountsByNamespace() map[model.NamespaceID]Counts
	CountsOf(check model.CheckID) Counts
	// Summaries sums up the states of each of these nodes, in their order.
	Summaries(nodes []model.NodeID) []Summary
	// OpenProblems calls fn with each open problem.
	OpenProblems(fn func(*model.Problem))
	// Watch streams states as they change (status, problem or output), from now
	// on. A slow reader gets the newest state of each event, not every one.
	Watch(ctx context.Context, q Query) (<-chan State, error)
}

// Definitions returns the ids of the compiled checks that events or open problems refer to
func (v *View) Definitions() map[model.DefinitionID]bool {
	named := map[model.DefinitionID]bool{}
	for _, p := range v.partitions {
		p.Lock()
		for _, n := range p.SortedNodes() {
			for _, e := range p.nodes[n].states {
				named[p.slots.slot(e.slot).definition] = true
			}
		}
		for _, problem := range p.problems {
			named[problem.Definition] = true
		}
		p.Unlock()
	}
	return named
}

// OpenProblems calls fn with each open problem, in no particular order. It holds no lock meanwhile: problems are
// replaced, never changed.
func (v *View) OpenProblems(fn func(*model.Problem)) {
	var some []*model.Problem
	for _, p := range v.partitions {
		some = some[:0]
		p.Lock()
		for _, problem := range p.problems {
			some = append(some, problem)
		}
		p.Unlock()
		for _, problem := range some {
			fn(problem)
		}
	}
}

// compiledQuery is a Query with sorted ids and the position after which the list continues.
type compiledQuery struct {
	Query
	nodes [model.Partitions][]model.NodeID // wanted ones, sorted; only if Nodes is not nil
	from  listPosition
}

// listPosition is the sort key of an event in lists of events. A page token holds the key of the page's last event, and
// the next page continues after it.
type listPosition struct {
	severity  int // from Disaster down
	partition int
	node      model.NodeID
	check     model.CheckID
	instance  string
}

// compileQuery validates a query and prepares the query's sorted ids and start position.
func (v *View) compileQuery(q Query) (compiledQuery, error) {
	c := compiledQuery{Query: q}
	if !q.ByNode {
		c.from.severity = int(model.Disaster)
	}
	if q.After != "" {
		from, err := parsePageToken(q.After, v.JournalID())
		if err != nil {
			return c, err
		}
		c.from = from
	}
	if c.Limit <= 0 {
		c.Limit = DefaultLimit
	}
	c.Limit = min(c.Limit, MaxLimit)
	c.Namespaces = sortedCopy(q.Namespaces)
	c.Checks = sortedCopy(q.Checks)
	if q.Nodes != nil {
		c.Nodes = sortedCopy(q.Nodes)
		v.EachNodePartition(c.Nodes, func(n model.NodeID, p model.Partition) { c.nodes[p] = append(c.nodes[p], n) })
	}
	return c, nil
}

// sortedCopy returns a copy of a list, in ascending order and without duplicates. It copies the list only where
// the list must change.
func sortedCopy[T cmp.Ordered](list []T) []T {
	if len(list) == 0 {
		return list
	}
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			list = slices.Clone(list)
			slices.Sort(list)
			return slices.Compact(list)
		}
	}
	return list
}

// containsID reports whether a sorted list contains an id. An empty list contains every id.
func containsID[T cmp.Ordered](wanted []T, id T) bool {
	if len(wanted) == 0 {
		return true
	}
	_, ok := slices.BinarySearch(wanted, id)
	return ok
}

// selectsIDs reports whether the query selects an event by its node, namespace and check
func (q *compiledQuery) selectsIDs(p *eventPartition, s *stateSlot) bool {
	n := p.Node(s.node)
	none := q.Nodes != nil && len(q.Nodes) == 0
	return !none && containsID(q.Nodes, n.ID) && containsID(q.Namespaces, n.Namespace) && containsID(q.Checks, s.check) &&
		(q.Instance == "" || p.instance(s) == q.Instance)
}

// selectsStatus reports whether the query selects an event by its status and open problem
func (q *compiledQuery) selectsStatus(s *State) bool {
	return (!q.Problems || s.Problem != nil) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, model.Status(s.Status)))
}

// A page token is a place in a list for one incarnation (id) of the journal. After a restore, nodes and checks may
// have other ids.
const (
	tokenVersion = 1
	tokenBytes   = 1 + 8 + 1 + 1 + 4 + 4 // without the instance
)

// encodePageToken encodes a position in a list as a page token in base64. The token contains the id of the journal.
func encodePageToken(at listPosition, log uint64) string {
	b := make([]byte, 0, tokenBytes)
	b = append(b, tokenVersion)
	b = binary.BigEndian.AppendUint64(b, log)
	b = append(b, byte(at.severity), byte(at.partition))
	b = binary.BigEndian.AppendUint32(b, uint32(at.node))
	b = append(binary.BigEndian.AppendUint32(b, uint32(at.check)), at.instance...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// parsePageToken decodes a page token, and refuses a token from before a restore or repair of the journal. Old
// is from before a restore or repair of the journal.
func parsePageToken(text string, log uint64) (listPosition, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < tokenBytes || len(b) > tokenBytes+model.MaxName || b[0] != tokenVersion || b[9] > byte(model.Disaster) {
		return listPosition{}, model.Errorf(model.Invalid, "the page token is invalid: this server did not issue it").
			WithHint("list again without it")
	}
	if binary.BigEndian.Uint64(b[1:]) != log {
		return listPosition{}, model.Errorf(model.Conflict, "the page token is from before this server's data was restored or repaired").
			WithHint("list again without it")
	}
	return listPosition{
		severity: int(b[9]), partition: int(b[10]),
		node:  model.NodeID(binary.BigEndian.Uint32(b[11:])),
		check: model.CheckID(binary.BigEndian.Uint32(b[15:])), instance: string(b[tokenBytes:]),
	}, nil
}

// ProblemNow returns a copy of the open problem of an event, with the event's present status. The stored problem has
// its worst status so far. Nil: none is open.
func (s *State) ProblemNow() *model.Problem {
	if s.Problem == nil {
		return nil
	}
	p := *s.Problem
	p.Status = s.Status
	return &p
}

// ResultState is the state of an event right after one result, for handlers that run for every result. It has problem,
// flapping and occurrences for their JSON line.
type ResultState struct {
	Severity    model.Severity
	Expired     bool
	Flapping    bool
	Failing     bool // not OK now
	Occurrences uint32
	Watermark   uint32
	Changed     int64  // start of this status, Unix ns
	Problem     string // id of the open one; empty: none is open
	Acked       bool
}

// StateAfterResult returns an event's state right after a given result, or false if a newer result followed. It
// allocates nothing.
func (v *View) StateAfterResult(node model.NodeID, check model.CheckID, stream, number uint64, received int64) (at ResultState, ok bool) {
	p := v.partitionOf(node)
	if p == nil {
		return at, false
	}
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(node)
	if !ok {
		return at, false
	}
	id, ok := p.nodes[n].find(check)
	if !ok {
		return at, false
	}
	s := p.slots.slot(id)
	if s.stream != stream || s.number != number || s.received != received {
		return at, false
	}
	at = ResultState{
		Severity: s.severity, Expired: s.flags&flagExpired != 0, Flapping: s.flags&flagFlapping != 0, Failing: s.status != model.OK,
		Occurrences: s.occurrences, Watermark: s.watermark, Changed: s.changed,
	}
	if s.flags&flagProblemOpen != 0 {
		o := p.problems[id]
		at.Problem, at.Acked = o.ID, o.Ack != nil
	}
	return at, true
}
