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

	"github.com/muster-fleet/muster/internal/load/plan"
)

// Line is one line of the log. At most one field besides At and Loader is set.
type Line struct {
	At    time.Duration `json:"at"`              // since the start of the timetable
	Mark  string        `json:"mark,omitempty"`  // MarkReady
	Heap  float64       `json:"heap,omitempty"`  // bytes in use on the server, behind a collection
	State *State        `json:"state,omitempty"` // of the server, when all values were applied
	Runs  *Runs         `json:"runs,omitempty"`  // of the server, when all runs of directives were applied

	Checked    *Checked       `json:"checked,omitempty"`
	Score      plan.Timetable `json:"score,omitempty"` // when the timetable starts, and when it changes
	Step       *Step          `json:"step,omitempty"`
	Fault      *Fault         `json:"fault,omitempty"`
	Loader     int            `json:"loader,omitempty"` // of the three below; 0 leads
	Check      *CheckSecond   `json:"check,omitempty"`
	Edge       *Edge          `json:"edge,omitempty"`
	Kept       *Kept          `json:"kept,omitempty"`
	View       *View          `json:"view,omitempty"`
	Intent     *Intent        `json:"intent,omitempty"`
	Silence    *Silence       `json:"silence,omitempty"`
	Alerts     *Alerts        `json:"alerts,omitempty"`
	RoundRobin *RoundRobin    `json:"roundRobin,omitempty"`
	Measured   *Measured      `json:"measured,omitempty"`
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

// MarkReady is the mark of a server that is ready.
const MarkReady = "server ready"

// Log writes lines to a file. A log without a file keeps the lines of a run of checks all the same.
type Log struct {
	path   string
	to     func(Line) // gets the lines of a follower too, and does not wait; nil: nobody does
	failed func(error)
	mu     sync.Mutex
	file   *os.File // nil: not yet, or there is none
	out    *bufio.Writer
	checks Checks
	err    error
}

// NewLog returns a log. The first line creates its file, unless path is empty. failed gets the first error of the file, which
// then has no further lines; it must not call the log.
func NewLog(path string, failed func(error)) *Log { return &Log{path: path, failed: failed} }

// NewCopied returns a log without a file. A function gets the lines that a follower hands to the lead; it must not wait.
func NewCopied(to func(Line)) *Log { return &Log{to: to} }

// Append writes a line. Close returns its error. A nil log writes nothing.
func (l *Log) Append(line Line) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(&line); err != nil {
		l.err = err
		l.failed(err)
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
	if many := line.Kept != nil || line.View != nil; err == nil && !many {
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
