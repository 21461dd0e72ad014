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
	p.heard("pager summary p1+p2")
	p.acks("p1", &model.Ack{By: "ann"})
	p.heard("pager summary p1")
	p.acks("p2", &model.Ack{By: "ann"})
	p.heard("pager acknowledged p1+p2") // now of all of it
}

// An Alertmanager groups by itself: each problem is an alert of its own.
func TestAnAlertmanagerIsToldOfEach(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("am", nil)})
	p.names.handlers = map[string]*model.HandlerSpec{"am": {Alertmanager: &model.Alertmanager{}}}
	p.opens("p1", 10)
	p.opens("p2", 11)
	p.after(time.Minute)
	p.heard("am opened p1", "am opened p2")
	p.closes("p1")
	p.closes("p2")
	p.after(time.Minute)
	p.heard("am closed p1", "am closed p2")
}

// People read ten of many and how many more there are; programs get the list.
func TestAMessageOfMany(t *testing.T) {
	var notes []*handler.Notification
	for range 25 {
		notes = append(notes, &handler.Notification{Problem: "p", Node: "web01", Check: "disk", Status: "CRITICAL", Output: "bad"})
	}
	n := several(notes, "p1", handler.Summary)
	if lines := strings.Split(n.Output, "\n"); len(lines) != 11 || lines[10] != "and 15 more" || len(n.Problems) != 25 || n.Count != 25 || n.Problem != "p1" {
		t.Errorf("%d lines, %d problems, %q", len(lines), len(n.Problems), n.Output)
	}
}
