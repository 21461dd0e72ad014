// Package tries throttles attempts at secrets: passwords, join tokens, signatures. Each network that
// one person holds has a burst of attempts, then one every few seconds.
//
// In: addresses of peers. Out: whether an attempt may go on. Three ways to use a Limiter: Allow counts
// every attempt; Exhausted before and Allow after count only failed ones; Acquire also bounds the
// attempts that are checked at the same time, for secrets whose check is expensive (argon2): concurrent
// attempts then get no further than sequential ones. No goroutines; a Limiter has one lock. Start
// reading at limiter.go.
package tries
