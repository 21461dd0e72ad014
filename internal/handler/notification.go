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

// Kinds of notifications. Every kind of handler has a form for each.
const (
	Opened       = "opened"
	Closed       = "closed"
	Acknowledged = "acknowledged" // somebody has taken it: By and Note
	Reminder     = "reminder"     // it is still open
	Summary      = "summary"      // several in one: Count, and Output with a line for each
	Test         = "test"         // muster handler test
	Deregistered = "deregistered" // an ephemeral node was forgotten: Output says why
	Event        = "event"        // kind of a delivery from a pipeline; the notification itself is Opened or Closed
	Beat         = "beat"         // of the watchdog: Output is the text that it waits for; no handler gets it
)

// Notification is the input of handlers: on standard input of a command, or as the body of a POST. It has more than 25
// fields because programs read them in one flat JSON object, whose names are documented (docs/handlers.md).
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
	// Incident is the id under which services know the problem, if an acknowledgement under its own id ended: PROBLEM.1, .2,
	// …, because services cannot reopen one. Instead is the incident that it replaces.
	Incident string             `json:"incident,omitempty"`
	Instead  string             `json:"instead,omitempty"`
	Opened   time.Time          `json:"opened"`
	Closed   time.Time          `json:"closed,omitzero"`
	Executed time.Time          `json:"executed"`          // when the check ran
	Expired  bool               `json:"expired,omitempty"` // nothing came in time
	By       string             `json:"by,omitempty"`      // author of the acknowledgement or of the test
	Note     string             `json:"note,omitempty"`    // the person's words
	Count    int                `json:"count,omitempty"`   // of the problems of a summary
	Hooks    []model.HookResult `json:"hooks,omitempty"`   // results of the check's hooks
	// Problems lists the problems of a message about several, the worst first, at most MaxProblems of Count; Problem is then
	// the id of their group.
	Problems []Listed `json:"problems,omitempty"`
	Summary  string   `json:"summary"` // one line for people
	// Of a message that passed a Sensu pipeline: the event in Sensu's shape, which programs get instead of the notification;
	// the pipeline as PIPELINE/WORKFLOW; and the mutator of the event.
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

// Decode parses the output of Encode.
func Decode(payload []byte) (*Notification, error) {
	n := &Notification{}
	if err := json.Unmarshal(payload, n); err != nil {
		return nil, fmt.Errorf("read notification: %w", err)
	}
	return n, nil
}
