package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// alertHandler is the handler by which a run hears of the checks that its faults let fail.
const alertHandler = "load-alerts"

// failing are the checks that a scenario's faults let fail, as they are called on the
// server, each with the name of its class.
func failing(sc *scenario.Scenario) map[string]string {
	names := map[string]string{}
	for i := range sc.Faults {
		f := sc.Faults[i].Fail
		if f == nil {
			continue
		}
		for c := range sc.Agents {
			class, found := &sc.Agents[c], false
			for _, k := range class.Checks {
				for n := range max(1, k.Count) {
					full := CheckName(class.Name, k.Name, n)
					if (f.Class == "" || f.Class == class.Name) && (k.Name == f.Check || full == class.Name+"-"+f.Check) {
						names[full], found = class.Name, true
					}
				}
			}
			if found {
				break // the first class that has it
			}
		}
	}
	return names
}

// arrange sets the handler up, names it in the checks that will fail, and begins to serve.
func (al *alarms) arrange(ctx context.Context) error {
	go func() { _ = al.server.Serve(al.listener) }() // until the run's end closes it
	names := failing(al.run.cfg.Scenario)
	if len(names) == 0 {
		return nil
	}
	handler := resource(model.Metadata{Name: alertHandler, Namespace: Namespace}, &model.HandlerSpec{Webhook: &model.Webhook{URL: al.url()}})
	if err := al.apply(ctx, append([]model.Resource{handler}, al.checksWith(names, &model.Alert{Handlers: []string{alertHandler}})...)); err != nil {
		return fmt.Errorf("set up the handler that hears of failing checks: %w", err)
	}
	return nil
}

// end takes the handler away again and serves no more.
func (al *alarms) end(ctx context.Context) error {
	defer al.server.Close()
	names := failing(al.run.cfg.Scenario)
	if len(names) == 0 {
		return nil
	}
	err := al.apply(ctx, al.checksWith(names, nil))
	kind, _ := model.KindOf("Handler")
	_, deleted := al.run.cfg.API.Delete(ctx, kind, Namespace, alertHandler, "", "the load run is over", 0, false, true)
	return errors.Join(err, deleted)
}

// checksWith are some of the scenario's checks, with these alerts.
func (al *alarms) checksWith(names map[string]string, alert *model.Alert) (list []model.Resource) {
	for _, r := range Resources(al.run.cfg.Scenario) {
		if spec, isCheck := r.Spec.(*model.CheckSpec); isCheck && names[r.Metadata.Name] != "" {
			spec.Alert = alert
			list = append(list, r)
		}
	}
	return list
}

func (al *alarms) apply(ctx context.Context, resources []model.Resource) error {
	request := v1.ApplyRequest{Yes: true, Message: "alerts of a load run"}
	for i := range resources {
		raw, err := json.Marshal(&resources[i])
		if err != nil {
			return fmt.Errorf("encode %s: %w", resources[i].Metadata.Name, err)
		}
		request.Resources = append(request.Resources, raw)
	}
	_, err := al.run.cfg.API.Apply(ctx, request)
	return err
}

// watchCheck follows a state whose check has the handler.
func (al *alarms) watchCheck(a *agent, check int, full string) {
	w := &witness{name: a.name + "/" + full, now: al.run.now}
	al.mu.Lock()
	al.checks[w.name] = w
	al.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ledger.watched == nil {
		a.ledger.watched = map[int16]*witness{}
	}
	a.ledger.watched[int16(check)] = w
}

// watchMachine follows a machine's keepalive.
func (al *alarms) watchMachine(a *agent) {
	al.mu.Lock()
	defer al.mu.Unlock()
	al.machines[a.name] = &machineWitness{agent: a, witness: witness{name: a.name + "/" + model.KeepaliveCheckName, now: al.run.now}}
}

// patience is for how long alerts that have to come are waited for, after the last one
// that came: a delivery that failed is tried again after seconds.
const patience = 15 * time.Second

// await judges until nothing is missing any more, or nothing has come for a while.
func (al *alarms) await(ctx context.Context, judge func() (missing int)) {
	began := al.run.now()
	for judge() > 0 && ctx.Err() == nil {
		al.mu.Lock()
		quiet := al.run.now() - max(began, al.heard)
		al.mu.Unlock()
		if quiet > int64(patience) {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}
