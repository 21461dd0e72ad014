package alertmanager

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// firing is one alert that somebody says.
type firing struct {
	status model.Status
	line   string // in one line
	text   string // whole
	until  time.Duration
	lag    lag
}

// place is what one event is of: the alerts of one name about one node. Times are of the
// receiver's clock.
type place struct {
	node      model.NodeID
	namespace string
	check     string

	alerts map[[32]byte]*firing
	// before is what the event was when this server started; it counts until whoever said it had time to say it again.
	before *firing
	ended  string // what ended last, in a line

	known  bool // said is what the event is
	said   model.Status
	output string
	at     time.Duration // when that was written
}

type placeKey struct {
	node  model.NodeID
	check model.CheckID
}

// status and text of the event, as of now.
func (p *place) verdict() (status model.Status, text string) {
	list := make([]*firing, 0, len(p.alerts))
	for _, f := range p.alerts {
		list = append(list, f)
		status = max(status, f.status)
	}
	if p.before != nil {
		status = max(status, p.before.status)
		if len(list) == 0 {
			list = append(list, p.before)
		}
	}
	switch {
	case len(list) > 0:
		text = together(list)
		note := ""
		for _, f := range list {
			note = max(note, f.lag.note)
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

// empty says that nothing fires there and the event says so: nothing is to be remembered.
func (p *place) empty() bool { return len(p.alerts) == 0 && p.before == nil && p.known }

// end takes away what nobody says any more, and says how much that was.
func (p *place) end(now time.Duration) (n int) {
	for id, f := range p.alerts {
		if f.until <= now {
			p.ended = f.line + " (nobody says it any more)"
			delete(p.alerts, id)
			n++
		}
	}
	if p.before != nil && p.before.until <= now {
		p.before = nil
		if p.ended == "" {
			p.ended = "nobody says it any more since this server started"
		}
	}
	return n
}
