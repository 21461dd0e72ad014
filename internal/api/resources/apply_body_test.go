package resources

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// FuzzApplyBody: the body of an apply is read, or refused by the fault of its sender; its resources
// are JSON values.
func FuzzApplyBody(f *testing.F) {
	v := view.New(view.Stores{}, view.Live{})
	s := &request{Request: op.Request{View: v, Routes: op.NewRoutes(op.Options{View: v, Queues: &queue.Registry{}})}}
	for _, text := range []string{
		`{"resources":[{"kind":"Check"},{}],"dryRun":true,"message":"m"}`, `{"resources":[]}`, `{"resources":[1,`, `{"resources":{}}`,
		`{"dryRun":true,"dryRun":true}`, `[]`, `{} {}`, `{"expect":[{"kind":"Check","name":"x","revision":-1}],"resources":[]}`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := s.applyBody(data, func(i int, raw json.RawMessage) error {
			if !json.Valid(raw) {
				t.Errorf("resource %d is no JSON: %q", i, raw)
			}
			return nil
		})
		var status huma.StatusError
		switch {
		case err == nil:
		case errors.As(err, &status):
			if status.GetStatus()/100 != 4 {
				t.Errorf("%q: status %d", data, status.GetStatus())
			}
		case model.ClassOf(err) != model.Invalid && model.ClassOf(err) != model.TooLarge:
			t.Errorf("%q: %v", data, err)
		}
	})
}
