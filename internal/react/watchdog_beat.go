package react

import (
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// watchdog receives beats; it is no declared handler. See DeliveryOptions.Beat.
var watchdog = history.HandlerRef{Name: "watchdog"}

// beat returns the delivery of a synthetic result. It goes through the outbox like every message, and ends at
// DeliveryOptions.Beat.
func beat(t *event.Transition, now time.Time) (history.Delivery, error) {
	note := handler.Notification{Kind: handler.Beat, Node: model.ServerNodeName,
		Status: t.Status.String(), Output: t.Output, Executed: time.Unix(0, t.Executed)}
	note.SetSource(t.Source, model.BuiltinCheckName(model.WatchdogCheck))
	payload, err := note.Encode()
	return history.Delivery{
		Key: fmt.Sprintf("beat/%d/%d", t.At.Number, t.Index), Problem: watchdog.Name, Handler: watchdog,
		Kind: handler.Beat, Payload: payload, Created: now,
	}, err
}
