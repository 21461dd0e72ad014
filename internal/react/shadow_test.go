package react

import (
	"context"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// In the shadow all is worked out and recorded, and nothing waits to be sent. A problem is
// sent, or not, as it was when it opened, to its end and over a restart.
func TestAShadowIsRecordedAndNotSent(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	p.opens("p1", 10)
	p.shadow = true
	p.opens("p2", 11)
	p.after(time.Minute)
	p.expect("pager opened p1", "shadow: pager opened p2") // no message in common
	p.restart()
	p.acks("p2", &model.Ack{By: "ann"})
	p.closes("p1")
	p.shadow = false
	p.closes("p2")
	p.after(time.Minute)
	p.expect("shadow: pager acknowledged p2", "pager closed p1", "shadow: pager closed p2")
	due, _, err := p.store.Due(context.Background(), p.now, 100, nil)
	if err != nil || len(due) != 1 || due[0].Problem != "p1" || due[0].State != history.Pending {
		t.Errorf("to be sent: %+v, %v", due, err)
	}
	p.expectEscalations(0)
}
