package sensu

import (
	"fmt"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// Whom an agent wants to hear of its keepalive is learned from its keepalives, and anew when it
// changes; the pipelines of an event that begins a session are those of its check.
func TestWhoIsToHearOfAnAgentsKeepalive(t *testing.T) {
	for _, json := range []bool{true, false} {
		w := newWorld(t, nil)
		a, status := w.dial("web", "default", "secret", json)
		if a == nil {
			t.Fatal(status)
		}
		go a.read()
		hears := func() (h *model.KeepaliveReceivers, told bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			said, told := w.said[a.uid()]
			return said.Hears, told
		}
		a.x.KeepaliveHandlers = []string{"Slack", "slack", "cmdb"}
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.x, MetricsOnly: true, Pipelines: []string{"of-the-check"}})
		w.wait("its session", func() bool { _, told := w.said[a.uid()]; return told })
		if h, _ := hears(); h != nil {
			t.Errorf("json %v: an event says %+v", json, h)
		}
		for _, pipelines := range [][]string{{"Alerts", "more"}, {"more"}, nil} {
			a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.x, Interval: 5, Warning: 30, Pipelines: pipelines})
			want := &model.KeepaliveReceivers{Handlers: []string{"slack", "cmdb"}, Pipelines: cleanNames(pipelines)}
			w.wait(fmt.Sprint(pipelines), func() bool { return w.said[a.uid()].Hears.Equal(want) })
		}
	}
}
