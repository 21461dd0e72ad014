// Package intent keeps what operators declare: it checks, stores, revises and
// audits resources.
//
// Store (store.go) is the small interface to SQL; internal/store/intentdb implements
// it, and passes the conformance suite (intenttest) on SQLite and PostgreSQL. Service
// is what the API, the planner, enrolment and sessions call. Start reading at
// service.go; one apply is apply.go, from top to bottom. What sessions and requests
// ask (nodes.go) is answered from memory.
//
// Goroutines: Run, which writes what agents said of themselves, Tidy and Forget. Locks:
// one per index, none held across SQL; writing, which orders the writers and is held
// while they are in SQL, is waited for by no reader.
package intent
