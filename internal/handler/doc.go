// Package handler tells a service of a problem. Each kind of handler is one file that puts
// a notification into the service's envelope; what it says to people is made in one place
// (text.go), and which answers are tried again is one table (answers.go).
//
// In goes a Message: a notification with the key that stays the same over attempts. Out
// comes a Receipt, what was sent and answered with secrets hidden, and an error: *FinalError
// where another attempt cannot mend it, *BusyError where the service wants to be left alone
// for a while, any other where it is tried again. The package keeps no message: package
// react's outbox does.
//
// Start reading at handler.go, then pagerduty.go as an example.
//
// Goroutines: one per connection of a stream, which waits for its end. Locks: Out's, one
// per connection of a stream, one per mail under way; none is held while another is taken but
// Out's, by Close.
package handler
