package handler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// NotificationVersion is raised when a field changes its meaning; new fields do not
// raise it.
const NotificationVersion = 1

// Kinds of notifications. Every kind of handler knows what to make of each.
const (
	Opened       = "opened"
	Closed       = "closed"
	Acknowledged = "acknowledged" // somebody has taken it: By and Note
	Reminder     = "reminder"     // it is still open
	Summary      = "summary"      // several in one: Count, and Output with a line for each
	Test         = "test"         // muster handler test
	Deregistered = "deregistered" // an ephemeral node was forgotten: Output says why
	Event        = "event"        // of a delivery: what a pipeline passed on, as Opened or Closed
	Beat         = "beat"         // the watchdog's: Output is what it waits for; for no handler
)

// Notification is what handlers get: on standard input, or as the body of a POST.
type Notification struct {
	Version  int               `json:"version"`
	Kind     string            `json:"kind"`    // opened | closed | …
	Problem  string            `json:"problem"` // id: the deduplication key
	Node     string            `json:"node"`
	Labels   map[string]string `json:"labels,omitempty"` // of the node
	Check    string            `json:"check,omitempty"`  // name of the source, where it is a check
	Source   Source            `json:"source"`
	Space    string            `json:"namespace"`
	Status   string            `json:"status"`            // now
	Worst    string            `json:"worst"`             // of this problem so far
	Severity string            `json:"severity"`          // of the worst
	Was      string            `json:"was,omitempty"`     // the severity that they were told, of a reminder that it is worse
	Raised   bool              `json:"raised,omitempty"`  // this is worse than all that was told under this id before
	Output   string            `json:"output"`            // now
	Unacked  bool              `json:"unacked,omitempty"` // they were told that somebody looks after it, and nobody does any more
	// Incident is what services know it by, where acknowledgements ended that were told under its id: PROBLEM.1, .2, …, for
	// they cannot take one back. Instead is the one whose place it takes.
	Incident string             `json:"incident,omitempty"`
	Instead  string             `json:"instead,omitempty"`
	Opened   time.Time          `json:"opened"`
	Closed   time.Time          `json:"closed,omitzero"`
	Executed time.Time          `json:"executed"`          // when the check ran
	Expired  bool               `json:"expired,omitempty"` // nothing came in time
	By       string             `json:"by,omitempty"`      // who acknowledged, or asked for the test
	Note     string             `json:"note,omitempty"`    // what they said
	Count    int                `json:"count,omitempty"`   // of the problems of a summary
	Hooks    []model.HookResult `json:"hooks,omitempty"`   // what the check's hooks said of it
	// Problems are those of a message that tells of several, worst first, at most MaxProblems of
	// Count; Problem is then the id under which their group is told.
	Problems []Listed `json:"problems,omitempty"`
	Summary  string   `json:"summary"` // one line for people
	// Of a message that a pipeline kept from Sensu passed on: the event in Sensu's shape, which
	// programs get instead of all this; PIPELINE/WORKFLOW; and what changes the event first.
	Event    json.RawMessage `json:"event,omitempty"`
	Pipeline string          `json:"pipeline,omitempty"`
	Mutator  string          `json:"mutator,omitempty"`
}

// Source is the origin of a problem, with its name.
type Source struct {
	model.Source
	Name string `json:"name"`
}

// SetSource sets the origin of the problem; a check is also named in Check.
func (n *Notification) SetSource(s model.Source, name string) {
	if n.Source = (Source{s, name}); s.Kind == model.SourceCheck {
		n.Check = name
	}
}

// Subject names the source for people: disk, or disk-full[/var] where it is one of several instances.
func (n *Notification) Subject() string {
	if n.Source.Instance == "" {
		return n.Source.Name
	}
	return n.Source.Name + "[" + n.Source.Instance + "]"
}

// incident is the id under which a service keeps an alert for it.
func (n *Notification) incident() string { return cmp.Or(n.Incident, n.Problem) }

// MaxProblems is how many problems a message lists.
const MaxProblems = 1000

// Listed is one problem of a message that tells of several.
type Listed struct {
	Problem  string    `json:"problem"`
	Space    string    `json:"namespace"`
	Node     string    `json:"node"`
	Check    string    `json:"check,omitempty"`
	Source   Source    `json:"source"`
	Status   string    `json:"status"`
	Severity string    `json:"severity"`
	Was      string    `json:"was,omitempty"` // the severity that they were told, of one that is worse now
	Opened   time.Time `json:"opened"`
	Closed   time.Time `json:"closed,omitzero"`
}

// Encode writes the summary and returns the notification as JSON.
func (n *Notification) Encode() ([]byte, error) {
	n.Version, n.Summary = NotificationVersion, n.title()
	data, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("encode notification of problem %s: %w", n.Problem, err)
	}
	return data, nil
}

// Decode reads what Encode wrote, in this release or another.
func Decode(payload []byte) (*Notification, error) {
	n := &Notification{}
	if err := json.Unmarshal(payload, n); err != nil {
		return nil, fmt.Errorf("read notification: %w", err)
	}
	return n, nil
}
