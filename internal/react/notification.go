package react

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// NotificationVersion is raised when a field changes its meaning; new fields do not
// raise it.
const NotificationVersion = 1

// Notification is what handlers get: on standard input, or as the body of a POST.
type Notification struct {
	Version  int               `json:"version"`
	Kind     string            `json:"kind"`    // opened | closed
	Problem  string            `json:"problem"` // id: the deduplication key
	Node     string            `json:"node"`
	Labels   map[string]string `json:"labels,omitempty"` // of the node
	Check    string            `json:"check"`
	Space    string            `json:"namespace"`
	Status   string            `json:"status"`   // now
	Worst    string            `json:"worst"`    // of this problem so far
	Severity string            `json:"severity"` // of the worst
	Output   string            `json:"output"`   // now
	Opened   time.Time         `json:"opened"`
	Closed   time.Time         `json:"closed,omitzero"`
	Executed time.Time         `json:"executed"`          // when the check ran
	Expired  bool              `json:"expired,omitempty"` // nothing came in time
	Summary  string            `json:"summary"`           // one line for people
}

func encodeNotification(kind string, t *event.Transition, p history.Problem, labels map[string]string) ([]byte, error) {
	n := Notification{
		Version: NotificationVersion, Kind: kind, Problem: p.ID, Node: p.Node, Labels: labels, Check: p.Check, Space: p.Namespace,
		Status: t.Status.String(), Worst: p.Status.String(), Severity: p.Severity.String(), Output: t.Output,
		Opened: p.Opened.UTC(), Closed: p.Closed.UTC(), Executed: time.Unix(0, t.Executed).UTC(), Expired: t.Expired,
	}
	if p.Closed.IsZero() {
		n.Closed = time.Time{}
	}
	n.Summary = fmt.Sprintf("%s: %s on %s: %s", verb(kind, t.Status), p.Check, p.Node, firstLine(t.Output))
	data, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("encode notification of problem %s: %w", p.ID, err)
	}
	return data, nil
}

func verb(kind string, s model.Status) string {
	if kind == "closed" {
		return "RESOLVED"
	}
	return s.String()
}

// firstLine is the text of a plug-in's output, without perfdata and further lines.
func firstLine(s string) string {
	if i := strings.IndexAny(s, "\n|"); i >= 0 {
		s = s[:i]
	}
	if len(s) > maxSummary {
		s = strings.ToValidUTF8(s[:maxSummary], "") + "…"
	}
	return strings.TrimSpace(s)
}

const maxSummary = 200 // bytes of output in a summary
