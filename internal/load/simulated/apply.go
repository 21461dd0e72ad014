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
