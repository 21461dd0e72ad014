package alertmanager

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// firing is one firing alert.
type firing struct {
	status model.Status
	line   string        // summary and labels
	text   string        // with description and links
	until  time.Duration // end, unless it is repeated
	delay  clockDelay
}

// alertEvent is one event: the alerts of one name on one node. Times are of Server.clock.
type alertEvent struct {
	node      model.NodeID
	namespace string
	check     string

	alerts map[[32]byte]*firing
	// restored is the event at the start of the server. It counts until its sender has had time to repeat it.
	restored *firing
	ended    string // summary of the alert that ended last

	known   bool // status and output are the last result; false: it may be lost
	status  model.Status
	output  string
	written time.Duration // time of the last result
}

type eventKey struct {
	node  model.NodeID
	check model.CheckID
}

// verdict returns the present status and output of the event.
func (p *alertEvent) verdict() (status model.Status, text string) {
	list := make([]*firing, 0, len(p.alerts))
	for _, f := range p.alerts {
		list = append(list, f)
		status = max(status, f.status)
	}
	if p.restored != nil {
		status = max(status, p.restored.status)
		if len(list) == 0 {
			list = append(list, p.restored)
		}
	}
	switch {
	case len(list) > 0:
		text = listAlerts(list)
		note := ""
		for _, f := range list {
			note = max(note, f.delay.note)
		}
		if note != "" {
			text += "\n" + note
		}
		return status, text
	case p.ended != "":
		return model.OK, "resolved: " + p.ended
	}
	return model.OK, "resolved"
}

// isIdle reports whether nothing fires and the last result says so: the event need not be kept.
func (p *alertEvent) isIdle() bool { return len(p.alerts) == 0 && p.restored == nil && p.known }

// endExpired removes alerts that were not repeated in time, and returns their number.
func (p *alertEvent) endExpired(now time.Duration) (n int) {
	for id, f := range p.alerts {
		if f.until <= now {
			p.ended = f.line + " (no longer repeated)"
			delete(p.alerts, id)
			n++
		}
	}
	if p.restored != nil && p.restored.until <= now {
		p.restored = nil
		if p.ended == "" {
			p.ended = "not repeated since this server started"
		}
	}
	return n
}
