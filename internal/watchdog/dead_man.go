package watchdog

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
)

// CallDeadMan reports that the server lives, by a call of the dead man's switch's URL. This outside service raises an
// alarm when the calls stop.
func CallDeadMan(ctx context.Context, out *handler.Sender, url string, now time.Time) error {
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
