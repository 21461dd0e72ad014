package react

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// A message that waits for an asset is sent when it comes, and not an hour later; also where it
// comes while the message is tried in vain.
func TestMessagesThatWaitForAnAsset(t *testing.T) {
	for name, early := range map[string]bool{"later": false, "meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			tries, here := make(chan int, 10), make(chan bool, 10)
			asked := 0
			var r *running
			began := make(chan struct{})
			store := sqlite(t)
			n := someNames(map[string]*model.HandlerSpec{"page": {Command: &model.Command{Shell: "true"}, Assets: []string{"default/tools"}}})
			r = run(t, Options{Store: store, Names: n, Delivery: DeliveryOptions{Retry: Retry{First: time.Hour, Most: time.Hour}, Assets: func(context.Context, []string) ([]model.AssetDir, func(), error) {
				<-began
				asked++
				tries <- asked
				if <-here {
					return nil, func() {}, nil
				}
				if early && asked == 1 {
					r.AssetArrived()
				}
				return nil, nil, errors.New("asset default/tools is not here")
			}}})
			close(began)
			r.Emit([]event.Transition{opening("p1", 1)})
			receive(t, "the first attempt", tries)
			here <- false
			if a := receive(t, "its outcome", store.tried); a.State != history.Pending {
				t.Fatalf("%+v", a)
			}
			if !early {
				r.AssetArrived() // another one
			}
			receive(t, "the second attempt", tries)
			here <- false
			receive(t, "its outcome", store.tried)
			r.AssetArrived()
			receive(t, "the third attempt", tries)
			here <- true
			if a := receive(t, "its outcome", store.tried); a.State != history.Delivered {
				t.Errorf("%+v", a)
			}
		})
	}
}
