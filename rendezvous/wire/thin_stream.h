// Makes TCP retransmit at equal intervals, so that a session soon notices that a link works again.
//
// By default TCP doubles its retransmission timeout each time: it retransmits after 0.2 s, 0.6 s,
// 1.4 s, 3 s. If a link recovers in between, TCP may notice it so late that a lease of 3 s is over.
// For thin streams (with few packets in flight, such as a session) Linux can keep the first six
// intervals equal (TCP_THIN_LINEAR_TIMEOUTS in tcp(7)).
#ifndef DDPRUN_RENDEZVOUS_WIRE_THIN_STREAM_H_
#define DDPRUN_RENDEZVOUS_WIRE_THIN_STREAM_H_

namespace ddprun {

// Sets this option for the socket, and Reno as its congestion control, because Linux never treats a
// stream with the congestion control BBR as thin. Connections inherit both from a listening socket.
// No effect on sockets other than TCP.
void SendAgainSteadily(int fd);

// Does the same for all TCP sockets that this process has now, because gRPC does not expose its
// sockets. In an agent these include the sockets of torch's store and of --http. Any thread.
void SendAgainSteadily();

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_WIRE_THIN_STREAM_H_
