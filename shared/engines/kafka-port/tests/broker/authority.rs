//! A certificate authority for one test. It generates its keys and those of its certificates on demand.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its key, in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        // A random name, so that clients do not mistake one authority for another.
        let name = format!("Authority {:?}", key.public_key_raw().get(1..9));
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("a root").pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// Certificate of a broker with this address or host name.
    pub fn server(&self, name: &str) -> Identity {
        self.sign(name, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Certificate of a client.
    pub fn client(&self, name: &str) -> Identity {
        self.sign(name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a signature");
        Identity {
            certificate: signed.pem(),
            key: key.serialize_pem(),
        }
    }
}
