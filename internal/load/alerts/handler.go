package alerts

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// alertHandler is the name of the handler that sends alerts to the run: alerts of checks that faults let fail, and of
// checks with an alert in the scenario. alertRoute is the name of the route to this handler.
const (
	alertHandler = "load-alerts"
	alertRoute   = "load-alerts"
	alertsOf     = "alerts of a load run" // message of the change
)

// Listened returns the checks whose alerts the run receives: name on the server → way of the alert (handler or
// route).
func Listened(sc *scenario.Scenario) map[string]string {
	names := map[string]string{}
	for name := range Failing(sc) {
		names[name] = scenario.ByHandler
	}
	for _, k := range sc.Placed() {
		for n := range max(1, k.Count) {
			if k.Alert != "" {
				names[k.FullName(n)] = k.Alert
			}
		}
	}
	return names
}

// alertOf returns the alert settings of a check for a way of alerts.
func alertOf(how string) *model.Alert {
	if how == scenario.ByRoute {
		return &model.Alert{Route: alertRoute}
	}
	return &model.Alert{Handlers: []string{alertHandler}}
}

// ways returns the handler and, if a check asks for it, a route that sends each problem alone and at once.
func (l *Listener) ways(names map[string]string) []model.Resource {
	list := []model.Resource{simulated.Resource(model.Metadata{Name: alertHandler, Namespace: simulated.Namespace}, &model.HandlerSpec{Webhook: &model.Webhook{URL: l.url()}})}
	for _, how := range names {
		if how == scenario.ByRoute {
			at := model.Duration(0)
			return append(list, simulated.Resource(model.Metadata{Name: alertRoute, Namespace: simulated.Namespace},
				&model.RouteSpec{GroupBy: []string{"node", "check"}, GroupWait: &at, Steps: []model.RouteStep{{To: []string{alertHandler}}}}))
		}
	}
	return list
}

// Failing returns the names on the server of the checks that the scenario's faults let fail.
func Failing(sc *scenario.Scenario) map[string]bool {
	names := map[string]bool{}
	for i := range sc.Faults {
		if f := sc.Faults[i].Fail; f != nil {
			for _, name := range sc.Failing(f) {
				names[name] = true
			}
		}
	}
	return names
}

// Declare starts to receive alerts, and declares the handler on the server for the scenario's checks. Call WatchCheck
// before.
func (l *Listener) Declare(ctx context.Context) error {
	go func() { _ = l.server.Serve(l.listener) }() // until End
	names := Listened(l.run.Scenario)
	if len(names) == 0 {
		return nil
	}
	err := l.inherit(ctx, names)
	if err == nil {
		if err = simulated.Apply(ctx, l.run.API, alertsOf, append(l.ways(names), l.checksWith(names, alertOf)...)...); err != nil {
			err = fmt.Errorf("set up the handler that hears of problems: %w", err)
		}
	}
	if err != nil {
		l.server.Close()
	}
	return err
}

// inherit finds states whose problem began before the run: their alerts are not judged.
func (l *Listener) inherit(ctx context.Context, names map[string]string) error {
	for name := range names {
		err := OpenProblems(ctx, l.run.API, name, func(e *v1.Event) {
			if w := l.checks[observe.OwnName(e.Node)+"/"+name]; w != nil {
				w.Unknown()
			}
		})
		if err != nil {
			return fmt.Errorf("read the problems of check %s: %w", name, err)
		}
	}
	return nil
}

// Follow starts to watch the machines' keepalives, once all have their sessions.
func (l *Listener) Follow(ctx context.Context) {
	if l == nil || len(l.machines) == 0 {
		return
	}
	ctx, l.stop = context.WithCancel(ctx)
	l.following.Go(func() { l.follow(ctx) })
}

// Unfollow stops watching the machines' keepalives, before they stop.
func (l *Listener) Unfollow() {
	l.stop()
	l.following.Wait()
}

// End removes the handler from the server and stops receiving alerts.
func (l *Listener) End() {
	if l == nil {
		return
	}
	l.Unfollow()
	l.server.Close()
	names := Listened(l.run.Scenario)
	if len(names) == 0 {
		return
	}
	ctx, over := context.WithTimeout(context.Background(), 10*time.Second)
	defer over()
	err := simulated.Apply(ctx, l.run.API, alertsOf, l.checksWith(names, func(string) *model.Alert { return nil })...)
	if err = errors.Join(err, simulated.Delete(ctx, l.run.API, "the load run is over", l.ways(names)...)); err != nil {
		l.run.Log.Warn("the handler of a load run stays on the server", "handler", simulated.Namespace+"/"+alertHandler, "error", err)
	}
}

// checksWith returns the scenario's checks with these names, each with the alert settings that alert returns.
func (l *Listener) checksWith(names map[string]string, alert func(how string) *model.Alert) (list []model.Resource) {
	for _, r := range simulated.Resources(l.run.Scenario) {
		if spec, isCheck := r.Spec.(*model.CheckSpec); isCheck && names[r.Metadata.Name] != "" {
			spec.Alert = alert(names[r.Metadata.Name])
			list = append(list, r)
		}
	}
	return list
}

// OpenProblems calls fn for each event of a check with an open problem.
func OpenProblems(ctx context.Context, api *client.Client, check string, fn func(*v1.Event)) error {
	return simulated.EachEvent(ctx, api, v1.EventFilter{Namespace: simulated.Namespace, Check: check, Problem: true}, func(e *v1.Event) error {
		fn(e)
		return nil
	})
}
