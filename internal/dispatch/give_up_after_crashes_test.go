package dispatch

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/attempt"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// logAfterCrashes returns the log that a server leaves after several crashes during one delivery or evaluation.
// The key names the work.
func logAfterCrashes(t *testing.T, key string, crashes int) *attempt.CrashLog {
	t.Helper()
	path := filepath.Join(t.TempDir(), "attempts")
	for range crashes {
		l := testenv.Value(attempt.Open(path))(t)
		l.Start(key)
		testenv.NoError(t, l.Close())
	}
	l := testenv.Value(attempt.Open(path))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// TestDeliveryIsGivenUpAfterCrashes starts a delivery during which the server crashed several times, and expects
// a dead letter. A person can replay a dead letter.
func TestDeliveryIsGivenUpAfterCrashes(t *testing.T) {
	for crashes, want := range map[int]history.DeliveryState{0: history.Delivered, attempt.MaxCrashes - 1: history.Delivered, attempt.MaxCrashes: history.Dead} {
		n, _ := newWebhookDirectory(t, "pager", nil)
		store := openSQLiteStore(t)
		log := logAfterCrashes(t, "delivery p1/opened/default/pager", crashes)
		r := startDispatcher(t, Options{Store: store, Names: n, Delivery: DeliveryOptions{Retry: fastRetry, Attempts: log}})
		r.Emit([]event.Transition{openingTransition("p1", 1)})
		if want == history.Delivered {
			store.expectAttempt(t, want)
		} else {
			store.expectAttempt(t, want, "crashed 3 times in a row")
			if done, err := r.ReplayDeadLetters(t.Context(), history.HandlerRef{Namespace: "default", Name: "pager"}, history.ReplayQuery{Limit: 10}); err != nil || done.Revived != 1 {
				t.Errorf("%+v, %v", done, err)
			}
			store.expectAttempt(t, history.Delivered)
		}
		r.stop()
		if n := log.Crashes("delivery p1/opened/default/pager"); n != 0 {
			t.Errorf("%d crashes after the delivery ended", n)
		}
	}
}

// TestEventIsGivenUpAfterCrashes simulates several server crashes during the evaluation of one event, and
// expects no further evaluation. Each workflow of the event's pipelines leaves one dead letter.
func TestEventIsGivenUpAfterCrashes(t *testing.T) {
	n, got := newWebhookDirectory(t, "slack", nil)
	n.definition.Handlers, n.definition.Pipelines = nil, []string{"alerts"}
	table := pipelineTable(t, map[string]model.Spec{"alerts": pipelineOf("slack", "", "never"), "never": allowFilter("false")})
	store, subject := openSQLiteStore(t), pipelineInput(1, 2)
	probe := startDispatcher(t, Options{Store: openSQLiteStore(t), Names: n, Pipelines: PipelineOptions{Table: table}})
	id := probe.pipeline.newEvent(&subject, &n.definition, testTime).id
	r := startDispatcher(t, Options{Store: store, Names: n, Pipelines: PipelineOptions{Table: table}, Delivery: DeliveryOptions{Retry: fastRetry, Attempts: logAfterCrashes(t, "event "+id, attempt.MaxCrashes)}})
	r.Emit([]event.Transition{subject, pipelineInput(2, 2, 2)})
	r.waitRecorded(positionAt(2))
	list, err := store.Deliveries(t.Context(), "event-10-1001")
	if err != nil || len(list) != 1 || list[0].State != history.Dead || !strings.Contains(list[0].LastError, "crashed 3 times") || !strings.Contains(string(list[0].Payload), "result 1") {
		t.Errorf("%+v, %v", list, err)
	}
	if v, ok := r.PipelineDecisions(10, 1001); !ok || v.List[0].Pass || v.List[0].Filter != "never" {
		t.Errorf("the verdict of the next event: %+v", v)
	}
	select {
	case p := <-got:
		t.Errorf("the handler got %s", p.body)
	default:
	}
}
