package main

import (
	"math/rand/v2"
	"time"
)

const mostBehind = time.Second // a load that falls back further than this starts over, instead of sending a burst

// load commits events at a rate, at random times (a Poisson process) and of random resources.
type load struct {
	storage *storage
	rates   chan float64
}

func newLoad(s *storage) *load {
	l := &load{s, make(chan float64)}
	go l.run()
	return l
}

// setRate commits so many events per second from now on.
func (l *load) setRate(rate float64) {
	l.rates <- rate
}

// burst commits so many events of each resource as fast as possible.
func (l *load) burst(events int) {
	for range events {
		for number := range l.storage.resources {
			l.storage.commit(number)
		}
	}
}

func (l *load) run() {
	rate := <-l.rates
	for {
		for rate <= 0 {
			rate = <-l.rates
		}
		rate = l.commitAt(rate)
	}
}

// commitAt commits events at a rate until there is another rate, and returns that.
func (l *load) commitAt(rate float64) float64 {
	due := time.Now()
	for {
		due = due.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		wait := time.Until(due)
		if wait < -mostBehind {
			due = time.Now()
		}
		select {
		case next := <-l.rates:
			return next
		default:
		}
		if wait > 0 {
			select {
			case next := <-l.rates:
				return next
			case <-time.After(wait):
			}
		}
		l.storage.commit(rand.IntN(len(l.storage.resources)))
	}
}
