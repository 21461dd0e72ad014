package intent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// A service that takes problems only hears of no forgotten node: neither an applied Node nor a
// join token may name it, whether it is there or comes in the same file.
func TestWhoCanHearOfAForgottenNode(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	handler := func(name string, spec model.HandlerSpec) model.Resource {
		return model.Resource{Kind: "Handler", Metadata: model.Metadata{Name: name}, Spec: &spec}
	}
	node := func(tell string) model.Resource {
		return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01"}, Spec: &model.NodeSpec{Lifecycle: &model.Lifecycle{Ephemeral: true, Handlers: []string{tell}}}}
	}
	apply := func(list ...model.Resource) error {
		_, err := w.Apply(ctx, ada, list, intent.ApplyOptions{})
		return err
	}
	refused := func(err error, service string) {
		t.Helper()
		var e *model.Error
		if !errors.As(err, &e) || e.Class != model.Invalid || !strings.Contains(err.Error(), service+", which takes problems only") || !strings.Contains(e.Hint, "name a handler with command, webhook") {
			t.Errorf("%s: %v", service, err)
		}
	}
	pager := handler("pager", model.HandlerSpec{PagerDuty: &model.PagerDuty{RoutingKey: model.Secret{Text: "key"}}})
	refused(apply(pager, node("pager")), "PagerDuty")
	if err := apply(pager, handler("genie", model.HandlerSpec{Opsgenie: &model.Opsgenie{APIKey: model.Secret{Text: "key"}}}),
		handler("prom", model.HandlerSpec{Alertmanager: &model.Alertmanager{URLs: []string{"http://127.0.0.1:9093"}}}), handler("cmdb", model.HandlerSpec{Command: &model.Command{Shell: "cat"}})); err != nil {
		t.Fatal(err)
	}
	for name, service := range map[string]string{"pager": "PagerDuty", "genie": "Opsgenie", "prom": "Alertmanager"} {
		refused(apply(node(name)), service)
		refused(w.CheckJoinGrant(ctx, pki.JoinToken{Namespace: "default", Lifecycle: &model.Lifecycle{Ephemeral: true, Handlers: []string{name}}}), service)
	}
	if err := apply(node("cmdb")); err != nil {
		t.Error(err)
	}
	if err := w.CheckJoinGrant(ctx, pki.JoinToken{Namespace: "default", Lifecycle: &model.Lifecycle{Ephemeral: true, Handlers: []string{"cmdb"}}}); err != nil {
		t.Error(err)
	}
}
