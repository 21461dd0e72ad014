package react

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// paced tells of each problem by itself and at once, twice in an hour.
func paced(steps ...model.RouteStep) *model.RouteSpec {
	at := model.Duration(0)
	return &model.RouteSpec{GroupBy: []string{"node", "check"}, GroupWait: &at, Rate: &model.RouteRate{Messages: 2}, Steps: append([]model.RouteStep{{To: []string{"pager"}}}, steps...)}
}

// What is one message too many comes in one message when the hour is over, and ends as one.
func TestTheExcessOfARateIsToldTogether(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": paced()})
	p.opens("p1", 10)
	p.after(time.Minute)
	p.opens("p2", 11)
	p.expect("pager opened p1", "pager opened p2")
	for i, id := range []string{"p3", "p4", "p5"} {
		p.after(time.Minute)
		p.opens(id, model.NodeID(12+i))
	}
	p.closes("p4") // it is counted all the same
	p.closes("p1") // the end of what was told is told at once
	p.expect("pager closed p1")
	p.acks("p5", &model.Ack{By: "ann"})
	p.acks("p5", nil) // nothing of it lets it pass
	p.restart()
	p.opens("p6", 20) // the rate is still used up
	p.opens("p6b", 23)
	p.opens("p6c", 24)
	p.after(55 * time.Minute)
	p.expect()
	p.after(time.Minute)
	p.expect("pager summary p3+p5+p6+p6b+p6c+p4")
	p.opens("p7", 21) // the summary was the first message of the next hour
	p.expect("pager opened p7")
	p.opens("p8", 22)
	p.expect()
	p.closes("p3")
	p.closes("p5")
	p.expect("pager summary p3", "pager summary p3+p5")
	p.closes("p6b")
	p.closes("p6c")
	p.expect("pager summary p3+p6b", "pager summary p3+p6c")
	p.closes("p6")
	p.closes("p8")
	p.expect("pager closed p3+p6")
	p.after(time.Hour)
	p.expect("pager closed p8") // it came and went in that hour
	p.closes("p2")
	p.closes("p7")
	p.expect("pager closed p2", "pager closed p7")
	p.expectEscalations(0)
}

// A step that follows, a repeat and what a silence holds are no business of the rate; nor does
// one outlive its route.
func TestTheRateLetsAProblemPassOnce(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": paced(model.RouteStep{To: []string{"lead"}, After: minutes(10)})})
	for i, id := range []string{"p1", "p2", "p3"} {
		p.opens(id, model.NodeID(10+i))
	}
	p.expect("pager opened p1", "pager opened p2")
	p.after(11 * time.Minute)
	p.expect("lead opened p1", "lead opened p2")
	p.set("default", &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}}}})
	p.after(0)
	p.expect("pager opened p3")

	p = newPlay(t, map[string]model.Spec{"default": paced()})
	for i, id := range []string{"p1", "p2", "p3", "p4"} {
		p.opens(id, model.NodeID(10+i))
	}
	p.closes("p4")
	p.expect("pager opened p1", "pager opened p2")
	hour := model.Time{Time: noon.Add(2 * time.Hour)}
	p.set("work", &model.SilenceSpec{Selector: model.Selector{Checks: []string{"disk"}}, Until: hour, Reason: "new disks"})
	p.after(time.Hour)
	p.expect("pager closed p4") // of p3 the silence says nothing
	p.after(time.Hour)
	p.expect("pager opened p3")
}

// What opens at the turn of the hour, and is told before what was held until then is looked at, does
// not put that off by another hour; nor does a server that was down at that time.
func TestWhatTheRateHeldIsNotPutOffByTheNextHour(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		p := newPlay(t, map[string]model.Spec{"default": paced()})
		for i, id := range []string{"p1", "p2", "p3", "p4"} {
			p.opens(id, model.NodeID(10+i))
		}
		p.expect("pager opened p1", "pager opened p2")
		p.now = p.now.Add(time.Hour + time.Millisecond) // history was busy: nothing fired at the hour
		if restarts {
			p.restart()
		}
		p.opens("p5", 20)
		p.after(0)
		p.expect("pager opened p5", "pager summary p3+p4")
		p.opens("p6", 21) // the summary was the second message of this hour
		p.expect()
		p.after(time.Hour)
		p.expect("pager opened p6")
	}
}

// A clock that is set back keeps nothing back for longer.
func TestTheRateWhenTheClockIsSetBack(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": paced()})
	for i, id := range []string{"p1", "p2", "p3"} {
		p.opens(id, model.NodeID(10+i))
	}
	p.expect("pager opened p1", "pager opened p2")
	p.after(30 * time.Minute)
	p.now = p.now.Add(-24 * time.Hour)
	p.record(func(o *deliveryBatch) error { p.r.shiftTimes(o, 24*time.Hour); return nil })
	p.after(31 * time.Minute)
	p.expect("pager opened p3")
}

// The message says why it comes late; those of a shadow are counted by themselves.
func TestTheExcessSaysWhy(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": paced()})
	for i, id := range []string{"p1", "p2", "p3", "p4"} {
		p.opens(id, model.NodeID(10+i))
	}
	p.shadow = true
	p.opens("p5", 20)
	p.expect("pager opened p1", "pager opened p2", "shadow: pager opened p5")
	o := newDeliveryBatch(p.r, p.now.Add(time.Hour))
	if err := p.r.notifyDue(o); err != nil || len(o.deliveries) != 1 {
		t.Fatal(err, o.deliveries)
	}
	var note handler.Notification
	if err := json.Unmarshal(o.deliveries[0].Payload, &note); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(note.Output, "held back until now by the rate of route default/default: no more than 2 messages in 1h") || note.Count != 2 {
		t.Errorf("%+v", note)
	}
	var b history.Batch
	if o.addTo(&b); b.Escalations[0].Held != nil {
		t.Errorf("%+v", b.Escalations[0])
	}
}

// What is used of a rate stays so over a restart, also where the problems that used it have ended.
func TestAPartOfTheRateOutlivesARestart(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": paced()})
	p.opens("p1", 10)
	p.closes("p1")
	p.expect("pager opened p1", "pager closed p1")
	p.restart()
	p.after(10 * time.Minute)
	p.opens("p2", 11)
	p.expect("pager opened p2")
	p.restart()
	p.opens("p3", 12)
	p.expect()
	p.after(51 * time.Minute)
	p.expect("pager opened p3")
	p.restart()
	p.opens("p4", 13)
	p.opens("p5", 14)
	p.expect("pager opened p4") // p3 was the first of this hour
}
