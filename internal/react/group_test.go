package react

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
)

// Who looks after one problem of a group does not quieten the others.
func TestOneOfAGroupIsAcknowledged(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	p.opens("p1", 10)
	p.opens("p2", 11)
	p.after(time.Minute)
	p.expect("pager summary p1+p2")
	p.acks("p1", &model.Ack{By: "ann"})
	p.expect("pager summary p1")
	p.acks("p2", &model.Ack{By: "ann"})
	p.expect("pager acknowledged p1+p2") // now of all of it
}

// What opens in a group that somebody looks after as a whole calls somebody: it is an incident of
// its own, for whoever keeps one for a group has acknowledged that.
func TestWhatOpensInAnAcknowledgedGroupIsToldByItself(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	p.opens("p1", 10)
	p.opens("p2", 11)
	p.after(time.Minute)
	p.acks("p1", &model.Ack{By: "ann"})
	p.opens("p3", 12)
	p.after(time.Minute)
	p.expect("pager summary p1+p2", "pager summary p1", "pager opened p1+p3") // it calls for p2 still
	p.acks("p2", &model.Ack{By: "ann"})
	p.acks("p3", &model.Ack{By: "ann"})
	p.expect("pager summary p1+p2", "pager acknowledged p1+p3")
	p.opens("p4", 13)
	p.closes("p3") // about to be told
	p.after(time.Minute)
	p.expect("pager opened p4", "pager summary p1+p3")
	p.restart()
	p.opens("p5", 14)
	p.after(time.Minute)
	p.expect("pager opened p4+p5")
	p.acks("p4", &model.Ack{By: "bob"})
	p.expect("pager summary p4")
	p.acks("p1", nil) // it calls again, under its own id
	p.expect()
	p.closes("p4")
	p.closes("p1")
	p.closes("p2")
	p.after(time.Minute)
	p.expect("pager summary p4", "pager closed p1+p2")
	p.closes("p5")
	p.after(time.Minute)
	p.expect("pager closed p4+p5")
	p.expectEscalations(0)

	// Somebody looks after it while another waits for the rest of its group; and what a silence
	// held is told when that ends.
	p = newPlay(t, map[string]model.Spec{"default": pages("pager", nil), "quiet": &model.SilenceSpec{
		Selector: model.Selector{Targets: &model.Targets{Nodes: []string{"web02"}}}, Until: model.Time{Time: noon.Add(time.Hour)}, Reason: "new disks"}})
	p.opens("p1", 10)
	p.after(time.Minute)
	p.opens("p2", 11) // is silenced
	p.opens("p3", 12)
	p.acks("p1", &model.Ack{By: "ann"})
	p.after(time.Minute)
	p.expect("pager opened p1", "pager acknowledged p1", "pager opened p3")
	p.acks("p3", &model.Ack{By: "ann"})
	p.after(time.Hour)
	p.expect("pager acknowledged p3", "pager opened p2")
}

// What ends in the moment in which another of its group opens ends as what it was told as, though
// somebody looks after it and the other calls for itself.
func TestAnAcknowledgedIncidentEndsAsTheNextOpens(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	p.opens("p1", 10)
	p.after(time.Minute)
	p.acks("p1", &model.Ack{By: "ann"})
	p.expect("pager opened p1", "pager acknowledged p1")
	p.closes("p1")
	p.opens("p2", 11)
	p.after(time.Minute)
	p.expect("pager closed p1", "pager opened p2")
	p.closes("p2")
	p.after(time.Minute)
	p.expect("pager closed p2")
	p.expectEscalations(0)
}

// An Alertmanager groups by itself: each problem is an alert of its own.
func TestAnAlertmanagerIsToldOfEach(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("am", nil)})
	p.names.handlers = map[string]*model.HandlerSpec{"am": {Alertmanager: &model.Alertmanager{}}}
	p.opens("p1", 10)
	p.opens("p2", 11)
	p.after(time.Minute)
	p.expect("am opened p1", "am opened p2")
	p.closes("p1")
	p.closes("p2")
	p.after(time.Minute)
	p.expect("am closed p1", "am closed p2")
}

// People read ten of many and how many more there are; programs get the list.
func TestAMessageOfMany(t *testing.T) {
	var notes []*handler.Notification
	for range 25 {
		notes = append(notes, &handler.Notification{Problem: "p", Node: "web01", Check: "disk", Source: handler.Source{Name: "disk"}, Status: "CRITICAL", Output: "bad"})
	}
	n := summarize(notes, "p1", handler.Summary)
	if lines := strings.Split(n.Output, "\n"); len(lines) != 11 || lines[10] != "and 15 more" || len(n.Problems) != 25 || n.Count != 25 || n.Problem != "p1" {
		t.Errorf("%d lines, %d problems, %q", len(lines), len(n.Problems), n.Output)
	}
}

// A problem may end between the look at it and the message: that leaves, and its end follows.
func TestWhatEndsWhileItIsTold(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	present, looks := p.r.Present, 0
	p.r.Present = func(node model.NodeID, source model.Source) (Presence, bool) {
		if looks++; looks > 2 { // of the opening, and of the step
			return Presence{}, true
		}
		return present(node, source)
	}
	p.opens("p1", 10)
	looks = 1
	p.after(10 * time.Second)
	p.expect("pager opened p1")
	p.r.Present = present
	p.closes("p1")
	p.after(10 * time.Second)
	p.expect("pager closed p1")
	p.expectEscalations(0)
}
