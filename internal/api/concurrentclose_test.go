package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// problemReplaced is a rig with an open problem, in whose place another one opens before what is done to it is
// written.
func problemReplaced(t *testing.T) (r *apitest.Rig, problem func() *model.Problem) {
	r = apitest.New(t)
	r.Apply("kind: Check\nmetadata: {name: disk}\nspec: {command: check_disk, interval: 1m, targets: {nodes: [web01]}}\n")
	r.Nodes("default", nil, "web01")
	r.Result("default", "web01", "disk", model.Critical, "full")
	node, _ := r.Directory.NodeByName("default", "web01")
	check, _ := r.Directory.CheckByName("default", "disk")
	r.Before = func() {
		r.Result("default", "web01", "disk", model.OK, "fine")
		r.Result("default", "web01", "disk", model.Critical, "full again")
	}
	return r, func() *model.Problem {
		s, _ := r.View.Get(node, check)
		if s.Problem == nil {
			return &model.Problem{}
		}
		return s.Problem
	}
}

func TestManyEventsMeanTheProblemsThatWerePicked(t *testing.T) {
	for _, verb := range []string{"acknowledge", "resolve"} {
		r, problem := problemReplaced(t)
		was := problem().ID
		status, _, text := raw(t, r, "POST", "/api/v1/events/"+verb, r.Token, `{"namespace":"default","check":"disk","note":"known"}`, map[string]string{"Content-Type": "application/json"})
		if status != 200 {
			t.Fatal(status, text)
		}
		if is := problem(); is.ID == "" || is.ID == was || is.Ack != nil {
			t.Errorf("%s of problem %s did something to another one: %+v", verb, was, is)
		}
		var out v1.BulkDone
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"acknowledge": 0, "resolve": 1}[verb] // a problem to be resolved is closed, by whomever
		if out.Done != want || len(out.Left) != 1-want || len(out.Left) == 1 && (out.Left[0].Failed || out.Left[0].Count != 1) {
			t.Errorf("%s: %s", verb, text)
		}
	}
}

// The acknowledgement of one event conflicts with a result that closes its problem.
func TestAnAcknowledgementThatCameTooLate(t *testing.T) {
	r, _ := problemReplaced(t)
	r.Before = func() { r.Result("default", "web01", "disk", model.OK, "fine") }
	status, _, text := raw(t, r, "POST", "/api/v1/events/default/web01/disk/acknowledge", r.Token, `{"note":"known"}`, map[string]string{"Content-Type": "application/json"})
	if status != http.StatusConflict {
		t.Error(status, text)
	}
}

func TestACallbackMeansTheProblemThatWasTold(t *testing.T) {
	for _, verb := range []string{"Acknowledge", "Close"} {
		r, problem := problemReplaced(t)
		r.Apply("kind: Handler\nmetadata: {name: pager}\nspec: {opsgenie: {apiKey: k, callback: 0123456789abcdef0123}}\n")
		was := *problem()
		if err := r.History.Record(t.Context(), history.Batch{Opened: []history.Problem{{Problem: was, Namespace: "default", Node: "web01", SourceName: "disk"}},
			Deliveries: []history.Delivery{{Key: "told", Problem: was.ID, Handler: history.HandlerRef{Namespace: "default", Name: "pager"}, Kind: "opened", Payload: []byte("{}"), Created: r.Now()}}}); err != nil {
			t.Fatal(err)
		}
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/callback/default/pager", strings.NewReader(`{"action":"`+verb+`","alert":{"alias":"`+was.ID+`","username":"ada"}}`))
		if err != nil {
			t.Fatal(err)
		}
		ask.Header.Set("Authorization", "Bearer 0123456789abcdef0123")
		answer, err := http.DefaultClient.Do(ask)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		if answer.Body.Close(); answer.StatusCode != 200 {
			t.Fatal(answer.StatusCode, string(text))
		}
		if is := problem(); is.ID == "" || is.ID == was.ID || is.Ack != nil {
			t.Errorf("%s of problem %s did something to another one: %+v", verb, was.ID, is)
		}
	}
}
