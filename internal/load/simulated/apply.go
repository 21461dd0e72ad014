package simulated

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// Apply declares resources, however many nodes they land on.
func Apply(ctx context.Context, api *client.Client, why string, list ...model.Resource) error {
	request := v1.ApplyRequest{ChangeOptions: v1.ChangeOptions{Message: why, Yes: true}}
	for i := range list {
		body, err := json.Marshal(&list[i])
		if err != nil {
			return fmt.Errorf("encode %s: %w", list[i].Metadata.Name, err)
		}
		request.Resources = append(request.Resources, body)
	}
	_, err := api.Resources.Apply(ctx, request)
	return err
}

// Delete deletes resources.
func Delete(ctx context.Context, api *client.Client, why string, list ...model.Resource) error {
	request := v1.DeleteRequest{ChangeOptions: v1.ChangeOptions{Message: why, Yes: true}}
	for i := range list {
		request.Resources = append(request.Resources, v1.Ref{Kind: list[i].Kind, Namespace: list[i].Metadata.Namespace, Name: list[i].Metadata.Name})
	}
	_, err := api.Resources.DeleteMany(ctx, request)
	return err
}

// EachEvent calls fn with each event that a filter selects, a thousand in a request.
func EachEvent(ctx context.Context, api *client.Client, filter v1.EventFilter, fn func(*v1.Event) error) error {
	for filter.Limit = 1000; ; {
		page, err := api.Events.List(ctx, filter)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := fn(&page.Items[i]); err != nil {
				return err
			}
		}
		if filter.After = page.Next; filter.After == "" {
			return nil
		}
	}
}
