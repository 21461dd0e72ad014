// Package observe is the observation log of a load run: what one loader saw, a JSON object per line, appended while the run
// goes on. It knows no verdict; package judge reads it.
//
// A Log has one lock; any goroutine may append. Start reading at Line; checks.go puts the lines of a run of checks together.
package observe

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Line is one line of the log. At most one field besides At and Loader is set.
type Line struct {
	At     time.Duration `json:"at"` // since the start of the values, or of the timetable
	Start  *Start        `json:"start,omitempty"`
	Second *Second       `json:"second,omitempty"`
	Mark   string        `json:"mark,omitempty"` // killed, ready, all acknowledged, …
	Lost   string        `json:"lost,omitempty"` // why a session ended
	Query  time.Duration `json:"query,omitempty"`
	Heap   float64       `json:"heap,omitempty"` // bytes in use on the server, behind a collection
	Node   *Node         `json:"node,omitempty"`
	Total  *Latency      `json:"total,omitempty"` // of all values, at the end
	State  *State        `json:"state,omitempty"` // of the server, when all values were applied
	Edit   *Edit         `json:"edit,omitempty"`  // of a directive
	Wrong  int           `json:"wrong,omitempty"` // number of invalid signals sent; the server must refuse each
	Runs   *Runs         `json:"runs,omitempty"`  // of the server, when all runs of directives were applied

	// Of a run of checks.
	Checked    *Checked     `json:"checked,omitempty"`
	Score      []Part       `json:"score,omitempty"` // when the timetable starts, and when it changes
	Step       *Step        `json:"step,omitempty"`
	Fault      *Fault       `json:"fault,omitempty"`
	Loader     int          `json:"loader,omitempty"` // of the three below; 0 leads
	Check      *CheckSecond `json:"check,omitempty"`
	Edge       *Edge        `json:"edge,omitempty"`
	Kept       *Kept        `json:"kept,omitempty"`
	View       *View        `json:"view,omitempty"`
	Intent     *Intent      `json:"intent,omitempty"`
	Silence    *Silence     `json:"silence,omitempty"`
	Alerts     *Alerts      `json:"alerts,omitempty"`
	RoundRobin *RoundRobin  `json:"roundRobin,omitempty"`
	Measured   *Measured    `json:"measured,omitempty"`
}

// Kept is one part of a loader's ledgers. One field is set.
type Kept struct {
	Breaches *Breaches `json:"breaches,omitempty"`
	Set      *Set      `json:"set,omitempty"`
	Ledger   *Ledger   `json:"ledger,omitempty"`
	Pair     *Pair     `json:"pair,omitempty"`
}

// View has event states of the server: a chunk of States, from before the run or after it.
type View struct {
	Before []byte `json:"before,omitempty"`
	After  []byte `json:"after,omitempty"`
	Whole  bool   `json:"whole,omitempty"` // all of After is there
}

// OfFollower reports whether a line is one that a loader hands to the one that leads.
func (l *Line) OfFollower() bool {
	if s := l.Check; s != nil {
		return s.Number >= 0
	}
	return l.Edge != nil || l.Kept != nil
}

// Marks of the log.
const (
	MarkAcknowledged   = "all signals are acknowledged"
	MarkUnacknowledged = "the time for acknowledgements is over"
	MarkKilled         = "server killed"
	MarkStopped        = "server stopped"
	MarkReady          = "server ready"
	MarkBack           = "all sessions are back"
)

// Start is the first line.
type Start struct {
	Unix     time.Time          `json:"unix"`
	Scenario *scenario.Scenario `json:"scenario,omitempty"`
	Nodes    int                `json:"nodes"`
	Values   float64            `json:"values"` // per second that the plan offers
	Ready    float64            `json:"ready"`  // seconds until all nodes had a session and their assignment
	Startup  *Startup           `json:"startup,omitempty"`
	MaxLag   time.Duration      `json:"maxLag,omitempty"` // of the generator; 0: the usual one
}

// Startup is the start of the server, which plans all nodes from cold.
type Startup struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"` // seconds
	RSS     int64   `json:"rss"`
}

// Edit is a change of the directive that all nodes have: the times until the API answered, and until all nodes had it.
type Edit struct {
	Applied time.Duration `json:"applied"`
	Held    time.Duration `json:"held"`
}

// Second is one second of the run.
type Second struct {
	Sent    uint64  `json:"sent"`
	Acked   uint64  `json:"acked"`
	Refused uint64  `json:"refused,omitempty"`
	Latency Latency `json:"latency"`
	Lag     float64 `json:"lag"` // ms by which the generator was late at most
	PID     int     `json:"pid"` // of the server; 0: it does not run
	CPU     float64 `json:"cpu"` // seconds that the server has used since its start
	Own     float64 `json:"own"` // likewise, this process
	RSS     int64   `json:"rss"` // of the server
	Load    float64 `json:"load"`
}

// Latency sums up the times from due to acknowledged, in ms.
type Latency struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Node is what became of one node's values.
type Node struct {
	Number int    `json:"number"`
	Sent   uint64 `json:"sent"`  // ticks whose values were sent
	Acked  uint64 `json:"acked"` // ticks whose values were acknowledged: the first ones
}

// Log writes lines to a file. A log without a file keeps the lines of a run of checks all the same.
type Log struct {
	path   string
	to     func(Line) // gets the lines of a follower too, and does not wait; nil: nobody does
	mu     sync.Mutex
	file   *os.File // nil: not yet, or there is none
	out    *bufio.Writer
	checks Checks
	err    error
}

// NewLog returns a log. The first line creates its file, unless path is empty.
func NewLog(path string) *Log { return &Log{path: path} }

// NewCopied returns a log without a file. A function gets the lines that a follower hands to the lead; it must not wait.
func NewCopied(to func(Line)) *Log { return &Log{to: to} }

// Append writes a line. Close returns its error. A nil log writes nothing.
func (l *Log) Append(line Line) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(&line); l.err == nil {
		l.err = err
	}
	if l.to != nil && line.OfFollower() {
		l.to(line)
	}
	l.checks.apply(&line) // after it was written: who sees a second can read it
}

// write writes a line to the file. Caller holds the lock.
func (l *Log) write(line *Line) (err error) {
	switch {
	case l.path == "" || l.err != nil:
		return nil
	case l.file == nil:
		if l.file, err = os.Create(l.path); err != nil {
			return err
		}
		l.out = bufio.NewWriter(l.file)
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = l.out.Write(append(text, '\n'))
	}
	if many := line.Node != nil || line.Kept != nil || line.View != nil; err == nil && !many {
		err = l.out.Flush() // a run that is killed can still be judged
	}
	return err
}

// Checks returns the run of checks. The caller must not append afterwards.
func (l *Log) Checks() *Checks { return &l.checks }

// Look calls fn with the run of checks so far.
func (l *Log) Look(fn func(c *Checks)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn(&l.checks)
}

// Close ends the file. It returns the first error of the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.err = cmp.Or(l.err, l.out.Flush())
		l.err = cmp.Or(l.err, l.file.Close())
		l.file, l.path = nil, ""
	}
	if l.err != nil {
		return fmt.Errorf("write the observation log: %w", l.err)
	}
	return nil
}

// Read reads the lines of a log. A last line that is cut short, as a killed loader leaves it, ends the log.
func Read(r io.Reader) (list []Line, err error) {
	d := json.NewDecoder(r)
	for {
		var line Line
		switch err := d.Decode(&line); err {
		case nil:
			list = append(list, line)
		case io.EOF, io.ErrUnexpectedEOF:
			return list, nil
		default:
			return list, fmt.Errorf("read line %d of the observation log: %w", len(list)+1, err)
		}
	}
}
