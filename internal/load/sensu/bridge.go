package sensu

import (
	"context"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// Bridge is a Muster server with a bridge for Sensu agents, as a Backend.
type Bridge struct {
	Client    *client.Client
	Namespace string
}

// version returns the version of the server.
func (b *Bridge) version(ctx context.Context) (string, error) {
	about, err := b.Client.Version(ctx)
	return "bridge of Muster " + about.Version, err
}

// put creates the check, and the groups of its agents.
func (b *Bridge) put(ctx context.Context, c *check) error {
	var list []model.Resource
	for _, group := range c.subscriptions {
		list = append(list, simulated.Resource(model.Metadata{Name: group, Namespace: b.Namespace}, &model.GroupSpec{SelfJoin: true}))
	}
	return simulated.Apply(ctx, b.Client, "muster load", append(list, simulated.Resource(model.Metadata{Name: c.name, Namespace: b.Namespace}, &model.CheckSpec{
		Targets: &model.Targets{Groups: c.subscriptions}, Command: &model.Command{Shell: "true"},
		Interval: model.Duration(c.interval) * model.Duration(time.Second), TTL: model.Duration(c.ttl) * model.Duration(time.Second)}))...)
}

// remove deletes a check.
func (b *Bridge) remove(ctx context.Context, name string) error {
	check := simulated.Resource(model.Metadata{Name: name, Namespace: b.Namespace}, &model.CheckSpec{})
	err := simulated.Delete(ctx, b.Client, "muster load", check)
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	return err
}

// events calls f with every event, without its execution time, which is by the server's clock.
func (b *Bridge) events(ctx context.Context, f func(state, held)) error {
	return simulated.EachEvent(ctx, b.Client, v1.EventFilter{Namespace: b.Namespace}, func(e *v1.Event) error {
		f(state{e.Node, e.Check}, held{0, uint32(e.Status), uint32(e.Occurrences)})
		return nil
	})
}
