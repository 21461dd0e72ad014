package routing

import (
	"context"

	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/store/history"
)

func (s *request) listDeliveries(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"253"`
	list.Where
}) (*op.Body[v1.DeliveryList], error) {
	deliveries, err := s.History.Deliveries(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	items := make([]v1.Delivery, len(deliveries))
	for i := range deliveries {
		items[i] = showDelivery(&deliveries[i])
	}
	if items, err = list.Matching(s.View, in.Where, items); err != nil {
		return nil, err
	}
	return op.Answer(v1.DeliveryList{Items: items}), nil
}

func showDelivery(d *history.Delivery) v1.Delivery {
	return v1.Delivery{
		ID: d.ID, Problem: d.Problem, Namespace: d.Handler.Namespace, Handler: d.Handler.Name, Kind: d.Kind,
		State: string(d.State), Attempts: d.Attempts, Created: d.Created, NextAt: d.NextAt, LastError: d.LastError, Ended: d.Ended, Replayed: d.Replayed,
	}
}
