package react

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// behind puts all nodes but one behind that one, which is noticed within a minute.
func (p *play) dependOn(front model.NodeID) {
	p.hangs = func(node model.NodeID, source model.Source) []route.Dependency {
		if node == front {
			return nil
		}
		return []route.Dependency{{Node: front, Check: 1001, Name: route.Name{Namespace: "default", Name: "sw7/ping"}, Behind: true, Settle: time.Minute}}
	}
	p.names.chunk.Interval = 30 * time.Second
}

// A fallen switch sends one message, and not one for each of the 4,000 nodes behind it, though
// the first of them open before its own. What still fails two intervals after it is back is told.
func TestAFallenSwitchSendsOneMessage(t *testing.T) {
	nodes := 4000
	if testing.Short() {
		nodes = 200
	}
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	p.dependOn(10)
	byNode, present := map[model.NodeID]string{}, p.r.Present
	p.r.Present = func(node model.NodeID, source model.Source) (Presence, bool) {
		switch problem := p.open[byNode[node]]; {
		case problem != nil && source.Check() == 1001:
			return Presence{Namespace: 1, Status: problem.Status, Problem: problem}, true
		case node == 10:
			return Presence{Status: model.OK, Executed: noon.Add(-time.Minute).UnixNano()}, true
		}
		return present(node, source)
	}
	// several turn in one transaction, as the reactor takes them.
	several := func(kind event.TransitionKind, from, to int) {
		p.record(func(o *deliveryBatch) error {
			for i := from; i <= to; i++ {
				id, node := fmt.Sprint("p", i), model.NodeID(10+i)
				if kind == event.ProblemOpened {
					byNode[node] = id
					p.open[id] = &model.Problem{ID: id, NodeID: node, Source: model.CheckSource(1001), Chunk: 3, Status: model.Critical, Severity: model.High, Opened: p.now, Output: "bad"}
				}
				if err := p.r.apply(o, p.changeOf(kind, id, nil)); err != nil {
					return err
				}
				if kind == event.ProblemClosed {
					delete(p.open, id)
				}
			}
			return nil
		})
	}
	several(event.ProblemOpened, 1, 50)
	p.after(20 * time.Second)
	p.expect() // groupWait is over; whether the switch is down is not known yet
	several(event.ProblemOpened, 0, 0)
	several(event.ProblemOpened, 51, nodes)
	p.after(3 * time.Hour)
	p.expect("pager opened p1+p0") // of p0, under the id of its group, which is that of the first
	// It is back, and so is all but three of them: one interval later.
	p.closes("p0")
	p.after(30 * time.Second)
	several(event.ProblemClosed, 4, nodes)
	withheld := 0
	var rest []string
	for _, text := range p.sent {
		if strings.Contains(text, " withheld ") && strings.Contains(text, "(unreachable behind default/sw7/ping until it closed: ") {
			withheld++
		} else {
			rest = append(rest, text)
		}
	}
	if withheld != nodes-3 {
		t.Errorf("%d were withheld with the reason", withheld)
	}
	p.sent = rest
	p.expect("pager closed p1+p0")
	p.after(29 * time.Second)
	p.expect()
	p.after(time.Minute)
	p.expect("pager summary p1+p2+p3")
}

// A node whose switch is well is told, once that is known; what a restart finds held stays so.
func TestWhatStandsBehindIsToldByItself(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	p.dependOn(10)
	p.opens("sw", 10)
	p.opens("p1", 11)
	p.after(time.Hour)
	p.expect("pager opened sw")
	p.restart()
	p.after(time.Hour)
	p.expect()
	p.hangs = func(model.NodeID, model.Source) []route.Dependency { return nil } // somebody says that it is not behind the switch
	p.r.reevaluateAll(p.now)
	p.after(time.Minute)
	p.expect("pager opened sw+p1")

	p = newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	p.dependOn(10)
	present := p.r.Present
	seen := noon.Add(-time.Second)
	p.r.Present = func(node model.NodeID, source model.Source) (Presence, bool) {
		if node == 10 {
			return Presence{Status: model.OK, Executed: seen.UnixNano()}, true
		}
		return present(node, source)
	}
	p.opens("p1", 11)
	p.after(50 * time.Second)
	p.expect()
	p.after(20 * time.Second)
	p.expect("pager opened p1") // a minute was enough to notice
	seen = p.now.Add(time.Second)
	p.opens("p2", 12)
	p.after(11 * time.Second)
	p.expect("pager opened p1+p2") // it was seen to be well after p2 opened
}

// A warning of the master keeps nothing back.
func TestAWarningOfTheMasterMasksNothing(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	p.dependOn(10)
	p.opens("sw", 10)
	p.open["sw"].Status = model.Warning
	p.after(2 * time.Minute)
	p.expect("pager opened sw")
	p.opens("p1", 11)
	p.after(2 * time.Minute)
	p.expect("pager opened sw+p1")
}

// Nor does one that was critical and is no more: what hangs on it is told two intervals later.
func TestAMasterThatWasCriticalMasksNothing(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	p.dependOn(10)
	p.opens("sw", 10)
	p.opens("p1", 11)
	p.after(10 * time.Minute)
	p.expect("pager opened sw")
	p.shows = map[string]model.Status{"sw": model.Warning}
	p.turn(event.StatusChanged, "sw", func(t *event.Transition) {
		t.Problem, t.Status, t.Received = nil, model.Warning, p.now.UnixNano()
	})
	p.after(50 * time.Second)
	p.expect()
	p.after(30 * time.Second)
	p.expect("pager opened sw+p1")
	p.opens("p2", 12)
	p.after(2 * time.Minute)
	p.expect("pager opened sw+p2")
}
