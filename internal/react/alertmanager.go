package react

import (
	"context"
	"sync"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// refreshPageSize open problems in one request.
const refreshPageSize = 500

// refreshAlertmanagers posts open problems to Alertmanagers again and again: they forget alerts that are not
// repeated.
func (d *deliverer) refreshAlertmanagers(ctx context.Context) {
	for sleep(ctx, handler.AlertEvery) == nil {
		refs, err := d.store.HandlersWithOpen(ctx)
		if err != nil && ctx.Err() == nil {
			d.log.Warn("open problems cannot be read to tell Alertmanagers again; trying again in a minute", "err", err)
		}
		for _, ref := range refs {
			if err := d.refreshHandler(ctx, ref); err != nil && ctx.Err() == nil {
				d.log.Warn("an Alertmanager could not be told again of what is open; trying again in a minute", "handler", ref.Name, "namespace", ref.Namespace, "err", err)
			}
		}
	}
}

// refreshHandler posts all open problems to one Alertmanager, page by page.
func (d *deliverer) refreshHandler(ctx context.Context, ref history.HandlerRef) error {
	spec, ok := d.names.Handler(ref.Namespace, ref.Name)
	if !ok || spec.Alertmanager == nil {
		return nil
	}
	for after := int64(0); ; {
		last, more, err := d.refreshPage(ctx, ref, spec, after)
		if err != nil || !more {
			return err
		}
		after = last
	}
}

// refreshPage posts one page. Meanwhile no closing goes to the same handler: an alert that ends now would
// begin anew.
func (d *deliverer) refreshPage(ctx context.Context, ref history.HandlerRef, spec *model.HandlerSpec, after int64) (last int64, more bool, err error) {
	gate := d.gates.of(ref)
	gate.Lock()
	defer gate.Unlock()
	list, err := d.store.OpenDeliveries(ctx, ref, after, refreshPageSize)
	if err != nil || len(list) == 0 {
		return 0, false, err
	}
	var notes []*handler.Notification
	for _, one := range list {
		last = one.ID
		note, err := handler.Decode(one.Payload)
		if err != nil {
			return 0, false, err
		}
		notes = append(notes, note)
	}
	return last, len(list) == refreshPageSize, d.out.ResendProblems(ctx, spec, notes)
}

// gates hold one lock for each Alertmanager: messages take it shared, a refresh alone.
type gates struct{ locks sync.Map } // history.HandlerRef to *sync.RWMutex

func (g *gates) of(ref history.HandlerRef) *sync.RWMutex {
	lock, _ := g.locks.LoadOrStore(ref, new(sync.RWMutex))
	return lock.(*sync.RWMutex)
}
