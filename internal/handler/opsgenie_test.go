package handler

import (
	"net/http"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What is worse than all that was told under an alias raises the alert's priority: that is a request
// of its own, and the message is taken when both are.
func TestOpsgenieRaisesThePriority(t *testing.T) {
	worse := *notifications()[Reminder]
	worse.Raised = true
	p := newFakeService(t, opsgenieRules)
	out := New(Options{})
	defer out.Close()
	status := map[string]int{}
	asked := func() (methods string) {
		for len(p.got) > 0 {
			methods += (<-p.got).method + " "
		}
		return methods
	}
	inner := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		p.answer = func(w http.ResponseWriter) { w.WriteHeader(max(status[method], http.StatusAccepted)) }
		inner.ServeHTTP(w, r)
	})
	send := func() error {
		receipt, err := out.Send(t.Context(), services(p.URL)["opsgenie"], worse.message(t))
		if n := strings.Count(receipt.Answer, "202"); err == nil && (n != 2 || !strings.Contains(receipt.Sent, "\nPUT ")) {
			t.Errorf("the receipt is of %d requests:\n%s", n, receipt.Sent)
		}
		return err
	}
	if err := send(); err != nil || asked() != "POST PUT " {
		t.Errorf("%v", err)
	}
	status["PUT"] = http.StatusServiceUnavailable
	var busy *BusyError
	if err := send(); !asBusy(err, &busy) || asked() != "POST PUT " {
		t.Errorf("%v", err)
	}
	status["POST"] = http.StatusUnprocessableEntity
	if err := send(); !asFinal(err) || asked() != "POST " {
		t.Errorf("%v", err)
	}
	for _, spec := range []model.Opsgenie{{URL: "https://api.atlassian.com/jsm/ops/integration/"}, {URL: "https://genie.example.org"}, {Region: "eu"}} {
		r := opsgenie(&spec, worse.message(t), out.words(&worse, nil))
		if (r.then != nil) == strings.Contains(spec.URL, "jsm") {
			t.Errorf("%q %q: then %+v", spec.URL, spec.Region, r.then)
		}
	}
}
