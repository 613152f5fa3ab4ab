//! A name server whose answers a test decides, over UDP and TCP.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, SRV};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Longest answer in one packet; what is longer is asked for again over TCP.
const PACKET_LEN_MAX: usize = 512;

/// Longest answer over TCP.
const ANSWER_LEN_MAX: usize = 65_535;

/// What a name server says.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    /// Priority, weight, host and port of each record of the only service.
    pub(crate) services: Vec<(u16, u16, String, u16)>,
    /// The addresses of hosts.
    pub(crate) hosts: BTreeMap<String, Vec<IpAddr>>,
    /// How long its answers are valid, in seconds.
    pub(crate) ttl: u32,
    pub(crate) mood: AnswerMode,
}

/// How a name server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerMode {
    Answers,
    /// SERVFAIL.
    Fails,
    Silent,
}

/// A running name server. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    asked: watch::Receiver<usize>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Clone)]
struct Answering {
    zone: Arc<Mutex<Zone>>,
    /// Questions for SRV records so far.
    asked: watch::Sender<usize>,
}

impl Zone {
    /// Records that lead to these ports of this machine, and are valid for a second.
    pub(crate) fn of_ports(records: &[(u16, u16, SocketAddr)]) -> Self {
        let host = "here.test.";
        let service = |(priority, weight, at): &(u16, u16, SocketAddr)| {
            (*priority, *weight, host.to_owned(), at.port())
        };
        Self {
            services: records.iter().map(service).collect(),
            hosts: BTreeMap::from([(host.to_owned(), vec![Ipv4Addr::LOCALHOST.into()])]),
            ttl: 1,
            mood: AnswerMode::Answers,
        }
    }

    fn records(&self, query: &Query) -> Vec<Record> {
        let name = |text: &str| Name::from_str(text).unwrap();
        let data: Vec<RData> = match query.query_type() {
            RecordType::SRV => {
                let service = |(priority, weight, host, port): &(u16, u16, String, u16)| {
                    RData::SRV(SRV::new(*priority, *weight, *port, name(host)))
                };
                self.services.iter().map(service).collect()
            }
            kind => {
                let host = query.name().to_utf8();
                let addresses = self.hosts.get(&host).into_iter().flatten();
                let data = addresses.map(|address| match address {
                    IpAddr::V4(address) => RData::A(A(*address)),
                    IpAddr::V6(address) => RData::AAAA(AAAA(*address)),
                });
                data.filter(|it| it.record_type() == kind).collect()
            }
        };
        let record = |data| Record::from_rdata(query.name().clone(), self.ttl, data);
        data.into_iter().map(record).collect()
    }
}

impl NameServer {
    pub(crate) async fn start(zone: Zone) -> Self {
        let (udp, tcp) = sockets().await;
        let address = tcp.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(zone));
        let (asked, receiver) = watch::channel(0);
        let answering = Answering {
            zone: zone.clone(),
            asked,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(answering.clone().over_udp(udp));
        tasks.spawn(answering.over_tcp(tcp));
        Self {
            address,
            zone,
            asked: receiver,
            _tasks: tasks,
        }
    }

    /// Changes what it says.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zone.lock().unwrap());
    }

    /// Waits for this number of further queries for the service. A client that queries again has read the previous answer.
    pub(crate) async fn is_asked(&self, times: usize) {
        let mut asked = self.asked.clone();
        let before = *asked.borrow_and_update();
        let enough = asked.wait_for(|now| *now >= before + times);
        enough.await.unwrap();
    }
}

/// Sockets of both protocols with the same port.
async fn sockets() -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
    panic!("no port is free for both protocols");
}

impl Answering {
    async fn over_udp(self, socket: UdpSocket) {
        let mut packet = [0; PACKET_LEN_MAX];
        loop {
            let (len, client) = socket.recv_from(&mut packet).await.unwrap();
            if let Some(answer) = self.answer(&packet[..len], PACKET_LEN_MAX) {
                socket.send_to(&answer, client).await.unwrap();
            }
        }
    }

    async fn over_tcp(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(self.clone().over_stream(stream));
        }
    }

    async fn over_stream(self, mut stream: TcpStream) {
        while let Ok(len) = stream.read_u16().await {
            let mut question = vec![0; len.into()];
            stream.read_exact(&mut question).await.unwrap();
            if let Some(answer) = self.answer(&question, ANSWER_LEN_MAX) {
                let len = u16::try_from(answer.len()).unwrap();
                stream.write_all(&len.to_be_bytes()).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        }
    }

    /// The answer to a question, cut if it is too long.
    fn answer(&self, question: &[u8], len_max: usize) -> Option<Vec<u8>> {
        let mut message = Message::from_vec(question).unwrap();
        let query = message.queries.first().unwrap().clone();
        let zone = self.zone.lock().unwrap().clone();
        if query.query_type() == RecordType::SRV {
            self.asked.send_modify(|asked| *asked += 1);
        }
        message.metadata.message_type = MessageType::Response;
        match zone.mood {
            AnswerMode::Silent => return None,
            AnswerMode::Fails => message.metadata.response_code = ResponseCode::ServFail,
            AnswerMode::Answers => message.insert_answers(zone.records(&query)),
        }
        let answer = message.to_vec().unwrap();
        if answer.len() <= len_max {
            return Some(answer);
        }
        message.answers.clear();
        message.metadata.truncation = true;
        Some(message.to_vec().unwrap())
    }
}
