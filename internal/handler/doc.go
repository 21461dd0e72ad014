// Package handler sends notifications to services. Each kind of handler is one function that puts a notification into the
// service's envelope; the text for people has one place (notification.go), and so have the answers after which a message is
// sent again (send_http_requests.go).
//
// Input: a Message, which is a notification with a key that is equal in all attempts. Output: a Receipt, which holds request
// and answer without secrets, and an error: a *Failure if another attempt cannot succeed or has to wait,
// any other if the message is sent again. The package keeps no message: package dispatch's outbox does.
//
// Start reading at notification_sender.go, then pagerduty_and_opsgenie.go as an example.
//
// Goroutines: one per connection of a stream, which waits for its end. Locks: Out's, one per connection of a stream, one per
// mail in progress; no lock is held while another one is acquired, except by Close, which holds Out's.
package handler
