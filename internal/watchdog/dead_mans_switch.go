package watchdog

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
)

// CallDeadMansSwitch calls the URL of an external watchdog (dead man's switch), as proof that the server lives.
// This outside service raises an alarm when the calls stop.
func CallDeadMansSwitch(ctx context.Context, out *handler.Sender, url string, now time.Time) error {
	note := &handler.Notification{Kind: handler.Beat, Node: model.ServerNodeName,
		Space: model.DefaultNamespaceName, Status: model.OK.String(), Executed: now}
	note.SetSource(model.CheckSource(model.WatchdogCheck), model.BuiltinCheckName(model.WatchdogCheck))
	payload, err := note.Encode()
	if err != nil {
		return err
	}
	_, err = out.Send(ctx, &model.HandlerSpec{Webhook: &model.Webhook{URL: url}}, &handler.Message{Key: "beat", Payload: payload, Note: note})
	return err
}
