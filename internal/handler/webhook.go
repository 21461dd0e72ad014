package handler

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// webhook posts the notification, or the output of the handler's template, and signs it if there is a secret.
func (o *Out) webhook(ctx context.Context, hook *model.Webhook, m *Message) (Receipt, error) {
	r := &request{kind: "webhook", hidden: true, url: hook.URL, typ: hook.ContentType, key: m.Key, ca: hook.CA, body: m.Payload}
	if hook.Template != "" {
		made, err := body.Render(hook.Template, m.Payload)
		if err != nil {
			return Receipt{}, &FinalError{fmt.Errorf("webhook: %w", err)}
		}
		r.body = made
	}
	if hook.Secret.Text != "" {
		r.header = signature(hook.Secret.Text, strconv.FormatInt(o.opts.Now().Unix(), 10), r.body)
	}
	if hook.Token.Text != "" {
		r.header = append(r.header, [2]string{"Authorization", "Bearer " + hook.Token.Text})
	}
	for _, name := range slices.Sorted(maps.Keys(hook.Headers)) {
		r.header = append(r.header, [2]string{name, hook.Headers[name]})
	}
	return o.post(ctx, m, r)
}

// signature returns headers that prove the sender and the body of a request and let the receiver refuse a replay: it
// computes the HMAC of time stamp, dot and body, and refuses an old time stamp.
func signature(secret, timestamp string, body []byte) [][2]string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return [][2]string{{"Muster-Timestamp", timestamp}, {"Muster-Signature", "v1=" + hex.EncodeToString(mac.Sum(nil))}}
}
