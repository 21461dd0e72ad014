// Package intent keeps what operators declare: it validates, stores, revises and
// audits resources. Store is the small interface to SQL (SQLite and PostgreSQL pass
// one conformance suite); Service is what the API, the planner and enrolment call.
// Start reading at store.go, then service.go (one apply, top to bottom).
package intent
